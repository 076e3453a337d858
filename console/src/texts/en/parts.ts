export const parts = {
  close: "Close",
  retry: "Try again",
  loading: "Loading",
  event: (position: number) => `Event ${position}`,
  eventsOf: (name: string) => `Events of ${name}`,
  copied: "Copied.",
  notCopied: "The browser does not let the page copy this.",
  code: "Code",
  copyCode: "Copy code",
  copyId: (id: string) => `Copy ${id}`,
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
  mayNot: {
    run: "Your key may read here, and not write. An admin of your tenant can give you another.",
    register: "Your key may not register agent systems. An admin of your tenant can give you another.",
  },
};

/** The server speaks English, but of requests, where a reader of the page can do nothing with that. */
const TOLD: Readonly<Record<string, string>> = {
  unknown_session: "There is no such session, or it was deleted.",
  unknown_workflow: "There is no such workflow, or it was deleted.",
  unknown_message: "There is no such message, or it was deleted.",
  session_busy: "Something is under way already. Send this again when it is over.",
  question_open: "The session waits for your answer to a question.",
  not_asked: "This question is no longer open.",
  which_question: "Several questions are open. Answer each where it is asked, in the chat.",
  not_a_run_end: "One can go on from here only where an answer is complete.",
  not_now: "That is not possible as the session stands. Load the page again.",
  unreadable: "This is a folder, or a file that cannot be read any more. Only files are taken.",
  key_reused: "This was sent before in other words. Write it anew.",
  system_gone: "The agent system of this session was deleted. Register it again, or begin another session.",
};

export const problems = {
  told: (code: string) => TOLD[code] ?? "",
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
