export const parts = {
  close: "Close",
  retry: "Try again",
  loading: "Loading",
  event: (position: number) => `Event ${position}`,
  eventsOf: (name: string) => `Events of ${name}`,
  copied: "Copied.",
  notCopied: "The browser does not let the page copy this.",
  image: "Image",
  imageNotLoaded: "Images of other hosts are not loaded; this is a link to it.",
  showMore: (left: number) => `show more (${left} left)`,
  done: "done",
  notDone: "to do",
  download: (name: string) => `Download ${name}`,
  preview: (name: string) => `Look into ${name}`,
  tooLarge: "It is too large to be shown here. Download it.",
  rows: (count: number) => (count === 1 ? "1 row" : `${count} rows`),
  rowsOf: (count: number, total: number) => `${count} of ${total} rows`,
  moreText: (left: number) => `show more (${left} characters left)`,
};

export const problems = {
  /** The server speaks English. */
  told: (_code: string) => "",
  unknown: "Something went wrong. Try again; if it happens again, look at the server's log.",
  unreachable: "The server cannot be reached. It may be restarting; what you see may be old.",
  unauthorized: "This server asks for a key, and there is none, or one that it does not take.",
};

export const status = {
  idle: "new",
  running: "running",
  completed: "completed",
  failed: "failed",
  stopped: "stopped",
  awaiting: "asks you",
  asked: "has asked",
};
