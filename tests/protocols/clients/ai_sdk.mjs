// The AI SDK as a front end uses it. The arguments are its packages: "ai" and "@ai-sdk/react", or those of an older major.

const [, , , core = "ai", hooks = "@ai-sdk/react"] = process.argv;
const sdk = await import(core);
const { Chat } = await import(hooks);

const chats = new Map();

// The messages that the client's own reader makes of the chunks of streams: one for each stream.
export async function read({ streams }) {
  const messages = [];
  for (const chunks of streams) {
    let message;
    let failure;
    const stream = new ReadableStream({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(chunk);
        controller.close();
      },
    });
    for await (const each of sdk.readUIMessageStream({ stream, onError: (error) => (failure ??= error) })) message = each;
    messages.push({ message: message ?? null, failure: failure ? String(failure.message ?? failure) : null });
  }
  return messages;
}

// A tab with a chat: `history` loads its messages first, as a page does.
export async function open({ tab, url, id, headers = {}, history = false, automatic = true }) {
  let messages = [];
  if (history) {
    const response = await fetch(`${url}/${id}`, { headers });
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    messages = await response.json();
  }
  const seen = { finished: [], data: [] };
  const chat = new Chat({
    id,
    messages,
    transport: new sdk.DefaultChatTransport({ api: url, headers }),
    sendAutomaticallyWhen: (options) =>
      automatic &&
      (sdk.lastAssistantMessageIsCompleteWithToolCalls(options) ||
        sdk.lastAssistantMessageIsCompleteWithApprovalResponses(options)),
    onFinish: ({ message, isAbort, isDisconnect, isError, finishReason }) =>
      seen.finished.push({ id: message.id, isAbort, isDisconnect, isError, finishReason }),
    onData: (part) => seen.data.push(part.type),
  });
  chats.set(tab, { chat, seen });
  return view({ tab });
}

export function view({ tab }) {
  const { chat, seen } = chats.get(tab);
  return { status: chat.status, error: chat.error?.message ?? null, messages: chat.messages, ...seen };
}

// What is done in a tab, until it is at rest; `emit("text")` when the first text of an answer is there.
async function during(tab, emit, action) {
  const { chat } = chats.get(tab);
  const before = chat.messages.length;
  const stop = chat["~registerMessagesCallback"](() => {
    const last = chat.messages.at(-1);
    if (emit && chat.messages.length >= before && last?.role === "assistant" && textOf(last).length > 0) {
      emit("text", textOf(last));
      emit = undefined;
    }
  });
  await action(chat);
  await rest(chat);
  stop();
  return view({ tab });
}

const textOf = (message) =>
  message.parts
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("");

// Automatic requests begin some ticks after the end of the one before.
async function rest(chat) {
  for (let idle = 0; idle < 5; idle = chat.status === "ready" || chat.status === "error" ? idle + 1 : 0) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export const send = ({ tab, message, options }, emit) =>
  during(tab, emit, (chat) => chat.sendMessage(typeof message === "string" ? { text: message } : message, options));
export const regenerate = ({ tab, messageId }, emit) => during(tab, emit, (chat) => chat.regenerate({ messageId }));
// As templates edit a message: the list is changed, and the answer made once more.
export const rewrite = ({ tab, messageId, text }, emit) =>
  during(tab, emit, (chat) => {
    const place = chat.messages.findIndex((message) => message.id === messageId);
    chat.messages = [...chat.messages.slice(0, place), { ...chat.messages[place], parts: [{ type: "text", text }] }];
    return chat.regenerate();
  });
export const resume = ({ tab }, emit) => during(tab, emit, (chat) => chat.resumeStream());
export const stop = ({ tab }) => during(tab, undefined, (chat) => chat.stop());
export const answer = ({ tab, output }, emit) => during(tab, emit, (chat) => chat.addToolOutput(output));
export const approve = ({ tab, response }, emit) =>
  during(tab, emit, (chat) => chat.addToolApprovalResponse(response));
