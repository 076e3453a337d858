// CopilotKit's core as its React client uses it, without a Node runtime: the newest version and the one before.

globalThis.window ??= globalThis; // it connects in a browser only

const cores = { newest: await import("@copilotkit/core"), before: await import("@copilotkit/core-before") };
const tabs = new Map();

// A page: it connects to the runtime and opens a thread, with what was said there.
export async function open({ name, version, runtimeUrl, agent, threadId, headers, transport, connect = true }, emit) {
  const core = new cores[version].CopilotKitCore({ headers });
  const errors = [];
  core.subscribe({ onError: ({ error, code }) => void errors.push(`${code}: ${error.message}`) });
  if (transport) core.setRuntimeTransport(transport);
  const found = new Promise((resolve) => {
    core.subscribe({
      onRuntimeConnectionStatusChanged: ({ status }) => ["connected", "error"].includes(status) && resolve(status),
    });
  });
  core.setRuntimeUrl(runtimeUrl);
  const status = await found;
  const tab = { core, errors, agent: core.getAgent(agent) };
  tabs.set(name, tab);
  if (!tab.agent) return { status, errors, agents: Object.keys(core.agents) };
  if (threadId) tab.agent.threadId = threadId;
  tab.agent.subscribe({ onEvent: ({ event }) => emit(event.type, event) });
  if (connect) await core.connectAgent({ agent: tab.agent });
  return { status, agents: Object.keys(core.agents), ...shown(tab) };
}

const shown = ({ agent, errors }) => ({
  messages: agent.messages,
  state: agent.state,
  interrupts: agent.pendingInterrupts,
  errors,
});

export async function run({ name, say, id, runId, resume, forwardedProps }, emit) {
  const tab = tabs.get(name);
  const { unsubscribe } = tab.agent.subscribe({ onEvent: ({ event }) => emit(event.type, event) });
  if (say !== undefined) tab.agent.addMessage({ id, role: "user", content: say });
  await tab.core.runAgent({ agent: tab.agent, runId, resume, forwardedProps });
  unsubscribe();
  return shown(tab);
}

export function stop({ name }) {
  const { core, agent } = tabs.get(name);
  core.stopAgent({ agent });
}
