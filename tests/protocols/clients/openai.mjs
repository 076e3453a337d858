// OpenAI's client for JavaScript, as a program uses it.

import OpenAI from "openai";

const client = ({ url, key }) => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0, timeout: 120_000 });

const failure = (error) => ({
  status: error.status ?? null,
  code: error.code ?? null,
  message: String(error.message),
});

export async function models(where) {
  const found = [];
  for await (const model of client(where).models.list()) found.push(model.id);
  return found;
}

// A chat completion: `emit("text")` for each piece.
export async function complete({ url, key, model = "demo", text, session, stream = true, more = {} }, emit) {
  const said = { text: "", finish: null, session: null, usage: null, error: null };
  const body = { model, messages: [{ role: "user", content: text }], stream, ...more };
  const headers = session ? { "X-Session-Id": session } : {};
  try {
    const { data, response } = await client({ url, key }).chat.completions.create(body, { headers }).withResponse();
    said.session = response.headers.get("x-session-id");
    for await (const chunk of stream ? data : [data]) {
      said.usage = chunk.usage ?? said.usage;
      for (const { delta, message, finish_reason } of chunk.choices) {
        said.text += (delta ?? message).content ?? "";
        said.finish = finish_reason ?? said.finish;
        emit("text", said.text);
      }
    }
  } catch (error) {
    said.error = failure(error);
  }
  return said;
}

// A response, or the rest of one: `emit("text")` for each event.
export async function respond({ url, key, model = "demo", input, previous, conversation, response, after }, emit) {
  const said = { id: response ?? null, text: "", numbers: [], last: null, output: null, conversation: null, error: null };
  const { responses } = client({ url, key });
  const asked = { model, input, previous_response_id: previous, conversation, stream: true };
  try {
    const events = await (response
      ? responses.retrieve(response, { stream: true, starting_after: after })
      : responses.create(asked));
    for await (const event of events) {
      if (!said.id) emit("id", (said.id = event.response.id));
      said.numbers.push(event.sequence_number);
      said.last = event.type;
      if (event.type === "response.output_text.delta") said.text += event.delta;
      emit("text", said.text);
    }
    const whole = await responses.retrieve(said.id);
    Object.assign(said, { output: whole.output_text, conversation: whole.conversation?.id ?? null });
  } catch (error) {
    said.error = failure(error);
  }
  return said;
}

export const cancel = async ({ url, key, response }) => (await client({ url, key }).responses.cancel(response)).status;
