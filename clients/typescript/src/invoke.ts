import type { SessionHead } from "./answers.js";
import type { StreamEvent } from "./events.js";
import { objectsOf } from "./lines.js";
import { address, ask, json, type Place, part } from "./place.js";
import { foreign } from "./problem.js";
import { type Opened, type Reconnecting, reconnecting, refused, type Source } from "./reconnect.js";

export interface StreamAgentRequest {
  readonly messages: readonly { readonly role: "user" | "assistant" | "system"; readonly content: string }[];
  readonly agent_system_id?: string | undefined;
}

export interface InvokeOptions extends Place, Reconnecting {
  readonly onEvent: (event: StreamEvent) => void;
}

/**
 * Ask an agent, and hear its events as they come. Resolves with the id of the session when the answer is whole, or when
 * the agent asks something.
 *
 * If the connection breaks in the middle, it goes on where it was, and no event comes twice. The request itself is sent
 * once: if it cannot be sent, that is an error, and so is a signal that ends it.
 */
export async function invokeAgent(request: StreamAgentRequest, options: InvokeOptions): Promise<string> {
  const conversation = new Conversation(request, options);
  for await (const event of reconnecting(options, conversation)) {
    conversation.after = event.id;
    options.onEvent(event);
  }
  options.signal?.throwIfAborted();
  return conversation.session;
}

async function* eventsOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent, void, undefined> {
  for await (const line of objectsOf(stream)) yield line as StreamEvent;
}

class Conversation implements Source<StreamEvent> {
  session = "";
  after: string | undefined;

  constructor(
    readonly request: StreamAgentRequest,
    readonly place: Place,
  ) {}

  readonly open: Opened = (signal) => (this.session === "" ? this.#begun(signal) : this.#goneOn(signal));

  readonly read = eventsOf;

  /** Sent twice, it would be answered twice. */
  readonly final = (error: unknown): boolean => this.session === "" || refused(error);

  /** A stream that ends is not yet the end of the run: a server that shuts down ends its streams, too. */
  readonly over = async (signal: AbortSignal): Promise<boolean> => {
    const path = `/sessions/${part(this.session)}`;
    const head: SessionHead = await json(await ask(this.place, address(this.place, path), { signal }));
    return head.status !== "running" || head.awaiting_user_input;
  };

  async #begun(signal: AbortSignal): Promise<Response> {
    const response = await ask(this.place, address(this.place, "/stream-test", { dialect: "events" }), {
      signal,
      method: "POST",
      body: JSON.stringify(this.request),
      headers: { "Content-Type": "application/json" },
    });
    this.session = response.headers.get("Stellwerk-Session") ?? "";
    if (this.session === "") throw foreign(response);
    return response;
  }

  #goneOn(signal: AbortSignal): Promise<Response> {
    const path = `/sessions/${part(this.session)}/stream`;
    const wanted = { dialect: "events", after: this.after, until: "run_end" };
    return ask(this.place, address(this.place, path, wanted), { signal, cache: "no-store" });
  }
}
