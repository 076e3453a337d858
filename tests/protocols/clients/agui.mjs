// AG-UI's clients as a front end uses them: 1.x and 0.0.59. An agent is one tab: it keeps its messages from call to call.

import * as newest from "@ag-ui/client";
import * as before from "@ag-ui/client-0";

const clients = { 1: newest, 0: before };
const tabs = new Map();

function tab(name, { client, url, threadId, headers }) {
  if (!tabs.has(name)) tabs.set(name, new clients[client].HttpAgent({ url, threadId, headers }));
  return tabs.get(name);
}

const shown = (agent) => ({
  threadId: agent.threadId,
  messages: agent.messages,
  state: agent.state,
  interrupts: agent.pendingInterrupts,
});

// One run: what is said, or answers to interrupts. Events are emitted by type; the result is what the tab shows then.
export async function run({ name, say, id, runId, resume, forwardedProps, state, messages, ...where }, emit) {
  const agent = tab(name, where);
  const events = [];
  let failure = null;
  let error = null;
  if (messages) agent.setMessages(messages);
  if (state) agent.setState(state);
  if (say !== undefined) agent.addMessage({ id, role: "user", content: say });
  const subscriber = {
    onEvent: ({ event }) => {
      events.push(event.type);
      emit(event.type, event);
    },
    onRunErrorEvent: ({ event }) => void (error = event),
    onRunFailed: ({ error: thrown }) => void (failure = String(thrown?.message ?? thrown)),
  };
  let result;
  try {
    result = (await agent.runAgent({ runId, resume, forwardedProps }, subscriber)).result;
  } catch (thrown) {
    failure = String(thrown?.message ?? thrown);
  }
  return { ...shown(agent), events, result, error, failure };
}

export function abort({ name }) {
  tabs.get(name).abortRun();
}

// History for a new tab: the client's own pipeline, on the stream of a GET.
export async function connect({ name, client, url, threadId, headers }, emit) {
  const version = client === "1" ? "1.0" : "0";
  class Tab extends clients[client].HttpAgent {
    connect(input) {
      return this.run(input);
    }

    requestInit() {
      return { method: "GET", headers: headers ?? {} };
    }
  }
  const history = `${url}/${encodeURIComponent(threadId)}?protocolVersion=${version}`;
  const reader = new Tab({ url: history, threadId, headers });
  const events = [];
  let failure = null;
  try {
    const onEvent = ({ event }) => {
      events.push(event.type);
      emit(event.type, event);
    };
    await reader.connectAgent({}, { onEvent });
  } catch (thrown) {
    failure = String(thrown?.message ?? thrown);
  }
  tabs.set(name, new clients[client].HttpAgent({ url, threadId, headers, initialMessages: reader.messages }));
  return { ...shown(reader), events, failure };
}
