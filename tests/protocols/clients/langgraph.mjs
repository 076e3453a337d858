// useStream of LangGraph's SDK as a front end uses it, in a page without a browser. The argument is its package.

import { JSDOM } from "jsdom";

const dom = new JSDOM("<!doctype html><div></div>", { url: "http://localhost/" });
for (const name of ["document", "navigator", "sessionStorage", "localStorage"]) globalThis[name] = dom.window[name];
globalThis.window = dom.window;
globalThis.IS_REACT_ACT_ENVIRONMENT = false;

const [, , , sdk = "@langchain/langgraph-sdk"] = process.argv;
const { createElement } = await import("react");
const { createRoot } = await import("react-dom/client");
const { useStream } = await import(`${sdk}/react`);
const { Client } = await import(sdk);

const tabs = new Map();

// A page with a chat; with `reconnect` it joins a run that is under way when it is opened, as after a reload.
export async function open({ tab, url, assistant, thread = null, reconnect = false, headers = {} }) {
  const page = { errors: [], stream: null, changed: new Set(), thread };
  function Page() {
    page.stream = useStream({
      apiUrl: url,
      defaultHeaders: headers,
      assistantId: assistant,
      threadId: page.thread,
      reconnectOnMount: reconnect,
      fetchStateHistory: true,
      onThreadId: (id) => {
        page.thread = id;
        page.root.render(createElement(Page));
      },
      onError: (error) => page.errors.push(String(error?.message ?? error)),
    });
    setTimeout(() => page.changed.forEach((check) => check()), 0);
    return null;
  }
  page.root = createRoot(dom.window.document.createElement("div"));
  tabs.set(tab, page);
  page.root.render(createElement(Page));
  await until(page, () => page.stream !== null && !page.stream.isThreadLoading);
  return view({ tab });
}

export function view({ tab }) {
  const { stream, errors, thread } = tabs.get(tab);
  const messages = stream.messages.map((message) => ({
    id: message.id,
    type: message.type,
    text: typeof message.content === "string" ? message.content : message.content.map((part) => part.text ?? "").join(""),
    calls: (message.tool_calls ?? []).map((call) => [call.name, call.args]),
  }));
  return {
    thread,
    messages,
    isLoading: stream.isLoading,
    waiting: stream.queue?.size ?? 0,
    interrupt: stream.interrupt?.value ?? null,
    error: stream.error ? String(stream.error.message ?? stream.error) : null,
    errors,
  };
}

// Submit a message, or a command, up to the end of the run; without `waits` up to the first words of its answer.
export async function submit({ tab, text, command, nothing = null, options = {}, waits = true }) {
  const page = tabs.get(tab);
  const known = page.stream.messages.length;
  const input = text === undefined ? nothing : { messages: [{ type: "human", content: text }] };
  page.stream.submit(input, { streamMode: ["values", "messages-tuple"], streamSubgraphs: true, command, ...options });
  await until(page, () => page.stream.isLoading);
  await until(page, () => (waits ? !page.stream.isLoading : page.stream.messages.length > known + 1));
  return view({ tab });
}

// As agent-chat-ui does it: another answer at the checkpoint before a message, or, with a text, another message there.
export async function again({ tab, message, text }) {
  const page = tabs.get(tab);
  const metadata = page.stream.getMessagesMetadata(page.stream.messages.at(message));
  const input = text === undefined ? undefined : { messages: [{ type: "human", content: text }] };
  page.stream.submit(input, { checkpoint: metadata.firstSeenState.parent_checkpoint, streamMode: ["values"] });
  await until(page, () => page.stream.isLoading);
  await until(page, () => !page.stream.isLoading);
  return view({ tab });
}

// Submit a message while a run is under way: the hook enqueues it.
export async function enqueue({ tab, text }) {
  const input = { messages: [{ type: "human", content: text }] };
  await tabs.get(tab).stream.submit(input, { streamMode: ["values", "messages-tuple"], multitaskStrategy: "enqueue" });
  return view({ tab });
}

// Until a message with this text is shown.
export async function shown({ tab, text }) {
  const page = tabs.get(tab);
  await until(page, () => view({ tab }).messages.some((message) => message.text.includes(text)));
  return view({ tab });
}

export async function rest({ tab }) {
  const page = tabs.get(tab);
  await until(page, () => !page.stream.isLoading);
  return view({ tab });
}

export async function stop({ tab }) {
  await tabs.get(tab).stream.stop();
  return view({ tab });
}

export function close({ tab }) {
  tabs.get(tab).root.unmount();
  tabs.delete(tab);
  return null;
}

// The thread protocol, over SSE or a WebSocket: starts a run or answers a question, and reads up to the end of the run.
export async function overThread({ url, assistant, transport, thread, text, response, interrupt }) {
  const page = new JSDOM("", { url }); // a WebSocket has the origin of its page
  const webSocketFactory = (address) => new page.window.WebSocket(address);
  const client = new Client({ apiUrl: url });
  const stream = client.threads.stream(thread, { assistantId: assistant, transport, webSocketFactory });
  if (interrupt === undefined) await stream.run.start({ input: { messages: [{ type: "human", content: text }] } });
  else await stream.input.respond({ interrupt_id: interrupt, namespace: [], response });
  await stream.output; // of an answer, it may be what was there when the question was asked
  const [run] = await client.runs.list(stream.threadId);
  const { messages } = await client.runs.join(stream.threadId, run.run_id);
  const interrupts = stream.interrupts.map(({ interruptId, payload }) => ({ id: interruptId, payload }));
  await stream.close();
  const said = messages.map((message) => [message.type, message.content]);
  return { thread: stream.threadId, messages: said, interrupts };
}

function until(page, condition) {
  return new Promise((resolve) => {
    const check = () => {
      if (!condition()) return;
      page.changed.delete(check);
      resolve();
    };
    page.changed.add(check);
    check();
  });
}
