// A chat in the browser, on POST /stream-test. Copy it and change it.

// The objects of an NDJSON stream, wherever the network cuts its bytes: an unfinished line waits for its end.
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

// What a line does to the answer. Its type and level say where it belongs; unknown types do nothing.
export function take(answer, line) {
  if (line.type === "text_delta") answer.preview += line.data;
  else if (line.message_id && line.level === "outer_agent") answer.preview = ""; // settled, or taken back
  if (line.ask_id) answer.question = { id: line.ask_id, text: line.data, ...line.question };
  else if (line.type === "text_final" && line.level === "outer_agent") answer.text += line.data;
  else if (line.type === "error" && line.data.fatal) answer.error = line.data.message;
  else if (line.type === "tool_results") answer.activity.push({ by: line.agent_name, tool: line.tool_name, ...line.data });
  else if (line.type === "text_step" || line.type === "text_final") answer.activity.push({ by: line.agent_name, kind: "text", text: line.data });
  return answer;
}

export async function ask(messages, show) {
  const response = await fetch("/stream-test?live=true", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ messages }),
  });
  if (!response.ok) throw new Error((await response.json()).detail);
  const answer = newAnswer();
  for await (const line of readLines(response.body)) show(take(answer, line));
  return answer;
}
