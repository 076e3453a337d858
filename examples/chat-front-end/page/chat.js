// A chat in the browser on POST /stream-test. Copy it and change it.

// Parses an NDJSON stream. The network may cut it anywhere; an incomplete line is kept until its end arrives.
export async function* readLines(stream) {
  const reader = stream.getReader(), decoder = new TextDecoder();
  let rest = "";
  for (let end = false; !end; ) {
    const { done, value } = await reader.read();
    const lines = (rest + decoder.decode(value, { stream: !(end = done) })).split("\n");
    rest = end ? "" : lines.pop();
    for (const line of lines) if (line.trim()) yield JSON.parse(line);
  }
}

export const newAnswer = () => ({ text: "", preview: "", activity: [], question: null, error: null });

// Applies a line to the answer, by its type and level. Unknown types are ignored.
export function take(answer, line) {
  if (line.type === "text_delta") answer.preview += line.data;
  else if (line.message_id && line.level === "outer_agent") answer.preview = ""; // confirmed or withdrawn
  if (line.ask_id) answer.question = { id: line.ask_id, text: line.data, ...line.question };
  else if (line.type === "text_final" && line.level === "outer_agent") answer.text += line.data;
  else if (line.type === "error" && line.data.fatal) answer.error = line.data.message;
  else if (line.type === "tool_results") answer.activity.push({ by: line.agent_name, tool: line.tool_name, ...line.data });
  else if (line.type === "text_step" || line.type === "text_final") answer.activity.push({ by: line.agent_name, kind: "text", text: line.data });
  return answer;
}

// Starts a conversation with its history. `show` is called with the answer after each line.
export async function ask(messages, show) {
  const response = await checked(post("/stream-test?live=true", { messages }));
  return receive(response, response.headers.get("Stellwerk-Session"), show);
}

// Answers an open question. The session has waited for it and continues.
export async function reply({ session, question }, text, show) {
  const path = `/sessions/${session}`;
  const { after } = await (await checked(post(`${path}/answers`, { text, ask_id: question.id }))).json();
  const rest = fetch(`${path}/stream?dialect=chunks&live=true&after=${after}&until=run_end`);
  return receive(await checked(rest), session, show);
}

const post = (path, body) =>
  fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

async function checked(request) {
  const response = await request;
  if (!response.ok) throw new Error((await response.json()).detail);
  return response;
}

async function receive(response, session, show) {
  const answer = { ...newAnswer(), session };
  for await (const line of readLines(response.body)) show(take(answer, line));
  return answer;
}
