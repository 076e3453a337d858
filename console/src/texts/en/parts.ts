export const parts = {
  close: "Close",
  retry: "Try again",
  loading: "Loading",
  event: (position: number) => `Event ${position}`,
  eventsOf: (name: string) => `Events of ${name}`,
  copied: "Copied.",
  notCopied: "The browser did not allow this page to copy.",
  code: "Code",
  copyCode: "Copy code",
  copyId: (id: string) => `Copy ${id}`,
  image: "Image",
  imageNotLoaded: "Images from other hosts are not loaded; follow the link to see it.",
  showMore: (left: number) => `show more (${left} left)`,
  addItem: "Add",
  insertFile: "Insert a file",
  fileTooLarge: (name: string) =>
    `${name} is larger than 90 kB. Attach it to the message, or upload it and name its id.`,
  removeItem: (name: string) => `Remove ${name}`,
  done: "done",
  notDone: "to do",
  download: (name: string) => `Download ${name}`,
  preview: (name: string) => `Preview ${name}`,
  tooLarge: "This file is too large to preview. Download it instead.",
  rows: (count: number) => (count === 1 ? "1 row" : `${count} rows`),
  rowsOf: (count: number, total: number) => `${count} of ${total} rows`,
  moreText: (left: number) => `show more (${left} characters left)`,
  mayNot: {
    run: "Your key is read-only. Ask an admin of your tenant for another one.",
    register: "Your key may not register agent systems. Ask an admin of your tenant for another one.",
  },
};

/** Texts by error code, where the server's own text speaks of the request and does not help a reader of the page. */
const BY_CODE: Readonly<Record<string, string>> = {
  unknown_session: "Session not found. It may have been deleted.",
  unknown_workflow: "Workflow not found. It may have been deleted.",
  unknown_message: "Message not found. It may have been deleted.",
  session_busy: "A run is in progress. Send this again when it has ended.",
  question_open: "The session is waiting for your answer to a question.",
  not_asked: "This question is no longer open.",
  which_question: "Several questions are open. Answer each one in the chat.",
  not_a_run_end: "You can continue in a new session only after a complete answer.",
  not_now: "This is not possible in the session's current state. Reload the page.",
  unreadable: "This is a folder or an unreadable file. Only files can be attached.",
  key_reused: "This was already sent with different content. Write it again.",
  system_gone: "The agent system of this session was deleted. Register it again, or start another session.",
};

export const problems = {
  byCode: (code: string) => BY_CODE[code] ?? "",
  unknown: "Something went wrong. Try again; if it happens again, check the server's log.",
  unreachable: "The server cannot be reached. It may be restarting; what you see may be out of date.",
  unauthorized: "This server requires an API key. Yours is missing or invalid.",
};

export const status = {
  idle: "new",
  running: "running",
  completed: "completed",
  failed: "failed",
  stopped: "stopped",
  awaiting: "waiting for you",
  asked: "asked a question",
};
