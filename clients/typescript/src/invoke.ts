import type { StreamEvent } from "./events.js";
import { objectsOf } from "./lines.js";
import { unexpectedResponse } from "./problem.js";
import { type OpenConnection, type ReconnectOptions, reconnecting, refused, type Source } from "./reconnect.js";
import { address, type ClientOptions, json, request, segment } from "./request.js";
import type { SessionHead } from "./responses.js";

export interface StreamAgentRequest {
  readonly messages: readonly { readonly role: "user" | "assistant" | "system"; readonly content: string }[];
  readonly agent_system_id?: string | undefined;
}

export interface InvokeOptions extends ClientOptions, ReconnectOptions {
  readonly onEvent: (event: StreamEvent) => void;
}

/**
 * Sends messages to an agent and reports its events as they arrive. Resolves with the session's id when the answer is
 * complete or the agent asks a question.
 *
 * A broken connection is resumed where it was, and no event arrives twice. The request itself is sent once: a failure to
 * send it is an error, and so is an abort.
 */
export async function invokeAgent(request: StreamAgentRequest, options: InvokeOptions): Promise<string> {
  const call = new AgentCall(request, options);
  for await (const event of reconnecting(options, call)) {
    call.after = event.id;
    options.onEvent(event);
  }
  options.signal?.throwIfAborted();
  return call.session;
}

async function* eventsOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent, void, undefined> {
  for await (const line of objectsOf(stream)) yield line as StreamEvent;
}

class AgentCall implements Source<StreamEvent> {
  session = "";
  after: string | undefined;

  constructor(
    readonly request: StreamAgentRequest,
    readonly options: ClientOptions,
  ) {}

  readonly open: OpenConnection = (signal) => (this.session === "" ? this.#start(signal) : this.#resume(signal));

  readonly read = eventsOf;

  /** Before the session is known a retry would start a second run. */
  readonly final = (error: unknown): boolean => this.session === "" || refused(error);

  /** The end of a stream is not always the end of the run: a server that shuts down also ends its streams. */
  readonly over = async (signal: AbortSignal): Promise<boolean> => {
    const path = `/sessions/${segment(this.session)}`;
    const head: SessionHead = await json(await request(this.options, address(this.options, path), { signal }));
    return head.status !== "running" || head.awaiting_user_input;
  };

  async #start(signal: AbortSignal): Promise<Response> {
    const response = await request(this.options, address(this.options, "/stream-test", { dialect: "events" }), {
      signal,
      method: "POST",
      body: JSON.stringify(this.request),
      headers: { "Content-Type": "application/json" },
    });
    this.session = response.headers.get("Stellwerk-Session") ?? "";
    if (this.session === "") throw unexpectedResponse(response);
    return response;
  }

  #resume(signal: AbortSignal): Promise<Response> {
    const path = `/sessions/${segment(this.session)}/stream`;
    const wanted = { dialect: "events", after: this.after, until: "run_end" };
    return request(this.options, address(this.options, path, wanted), { signal, cache: "no-store" });
  }
}
