const PATHS = {
  chat: "M4 5h16v11H9l-5 4z",
  workflows: "M5 4h5v5H5zM14 15h5v5h-5zM7.5 9v4.5a2 2 0 0 0 2 2H14",
  systems: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  tools: "M14.5 6.5a4 4 0 0 0-5.3 5L4 16.7V20h3.3l5.2-5.2a4 4 0 0 0 5-5.3l-2.6 2.6-2.9-.5-.5-2.9z",
  events: "M4 6h16M4 12h16M4 18h10",
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  chevron: "M9 6l6 6-6 6",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z",
  screen: "M3.5 5h17v11h-17zM9 20h6M12 16v4",
  alert: "M12 4l9 16H3zM12 10v4.5M12 17.3v.2",
  check: "M5 12.5l4.5 4.5L19 7.5",
  key: "M8 12a4 4 0 1 0 0 5.6A4 4 0 0 0 8 12zM8.5 11.9L18 4.5M15 7l2.5 3",
  image: "M4 5h16v14H4zM4 16l4.5-4.5L13 16l2.5-2.5L20 17.5M15.5 9.5v.2",
  download: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  eye: "M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12zM12 9.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z",
  agent: "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM5 20c0-4 3-6 7-6s7 2 7 6",
  model: "M12 3l2.2 6.3L20.5 12l-6.3 2.2L12 20.5l-2.2-6.3L3.5 12l6.3-2.7z",
  sorted: "M12 5v14M6.5 10.5L12 5l5.5 5.5",
  replay: "M5 12a7 7 0 1 1 2 5M5 12l-2.5-2.5M5 12l3-2.5M12 8v4.5l3 1.8",
  play: "M7 4.5v15l12-7.5z",
  pause: "M8 5v14M16 5v14",
  step: "M6 5v14l9-7zM18.5 5v14",
  stepBack: "M18 5v14l-9-7zM5.5 5v14",
  copy: "M8 8h11v12H8zM5 16V4h11",
  send: "M12 20V5M5.5 11.5L12 5l6.5 6.5",
  stop: "M6 6h12v12H6z",
  clip: "M19 11.5l-7.5 7.5a4.6 4.6 0 0 1-6.5-6.5l8-8a3.1 3.1 0 0 1 4.4 4.4l-7.8 7.8a1.5 1.5 0 0 1-2.2-2.2l7-7",
  fork: "M7 4v16M7 14c6 0 10-2 10-7V4M14 6.5L17 3.5l3 3",
  again: "M19.5 12a7.5 7.5 0 1 1-2.2-5.3L20 9M20 4v5h-5",
  trash: "M4.5 7h15M9.5 7V4h5v3M6.5 7l1 13h9l1-13M10.5 11v5.5M13.5 11v5.5",
  down: "M12 5v14M6 13l6 6 6-6",
  question: "M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 17.3v.2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  panel: "M4 5h16v14H4zM14.5 5v14",
  upload: "M12 16V4M7 9l5-5 5 5M4 20h16",
  clock: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4.5l3 2",
};

export type IconName = keyof typeof PATHS;

/** Always next to a text or in a labelled button, so hidden from screen readers. */
export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg aria-hidden viewBox="0 0 24 24" width={size} height={size} className="shrink-0">
      <path
        d={PATHS[name]}
        fill="none"
        stroke="currentColor"
        strokeWidth="1.7"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}
