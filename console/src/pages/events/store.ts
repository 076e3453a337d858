import { type Client, type Connection, type Envelope, Problem, type Profile } from "@stellwerk/client";

const PAGE = 1000;

export interface Shown {
  /** Always the same growing list; `length` is its current length. */
  readonly envelopes: readonly Envelope[];
  readonly length: number;
  /** `reading`: loading stored events; `live`: all loaded, new ones are shown at once. */
  readonly state: "reading" | "live";
  /** The server is unreachable and being retried. */
  readonly isLost: boolean;
  readonly problem?: Problem | undefined;
  /** Events per type, and all agents. */
  readonly types: ReadonlyMap<string, number>;
  readonly agents: ReadonlySet<string>;
}

/** The pages of a log, up to its current end. */
export async function* pagesOf(
  client: Client,
  sid: string,
  { after = 0, profile }: { after?: number; profile: Profile },
): AsyncGenerator<readonly Envelope[], void, undefined> {
  for (let from = after; ; ) {
    const page = await client.events(sid, { after: from, limit: PAGE, profile });
    if (page.events.length === 0) return;
    yield page.events;
    from = page.next;
  }
}

/** A whole log that follows new events while it has subscribers; a hidden page disconnects. */
export class WholeLog {
  readonly #envelopes: Envelope[] = [];
  readonly #types = new Map<string, number>();
  readonly #agents = new Set<string>();
  readonly #listeners = new Set<() => void>();
  #shown: Shown;
  #reading: AbortController | undefined;
  #frame: number | undefined;

  constructor(
    readonly client: Client,
    readonly sid: string,
    readonly profile: Profile,
  ) {
    const known = { envelopes: this.#envelopes, types: this.#types, agents: this.#agents };
    this.#shown = { ...known, length: 0, state: "reading", isLost: false };
  }

  readonly get = (): Shown => this.#shown;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) {
      document.addEventListener("visibilitychange", this.#look);
      this.#look();
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      document.removeEventListener("visibilitychange", this.#look);
      this.#stop();
    };
  };

  retry(): void {
    this.#show({ problem: undefined });
    this.#look();
  }

  readonly #look = (): void => {
    if (document.hidden) this.#stop();
    else if (this.#reading === undefined && this.#shown.problem === undefined) void this.#read();
  };

  #stop(): void {
    this.#reading?.abort();
    this.#reading = undefined;
  }

  async #read(): Promise<void> {
    const reading = new AbortController();
    this.#reading = reading;
    const { signal } = reading;
    const { client, sid, profile } = this;
    try {
      await this.#readPages(signal).catch(unlessPassing);
      if (signal.aborted) return;
      const onConnection = (connection: Connection) => !signal.aborted && this.#heard(connection);
      const following = client.follow(sid, { after: this.#last, profile, signal, onConnection });
      for await (const envelope of following) this.#add(envelope);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.#stop();
      this.#show({ problem, isLost: false });
    }
  }

  #heard(connection: Connection): void {
    if (connection === "open") this.#show({ state: "live", isLost: false });
    else if (connection === "waiting") this.#show({ isLost: true });
  }

  async #readPages(signal: AbortSignal): Promise<void> {
    const { client, sid, profile } = this;
    for await (const page of pagesOf(client, sid, { after: this.#last, profile })) {
      if (signal.aborted) return;
      for (const envelope of page) this.#add(envelope);
    }
  }

  get #last(): number {
    return this.#envelopes.at(-1)?.position ?? 0;
  }

  #add(envelope: Envelope): void {
    this.#envelopes.push(envelope);
    this.#types.set(envelope.type, (this.#types.get(envelope.type) ?? 0) + 1);
    if (envelope.agent) this.#agents.add(envelope.agent);
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = undefined;
      this.#show({});
    });
  }

  #show(news: Partial<Shown>): void {
    this.#shown = { ...this.#shown, ...news, length: this.#envelopes.length };
    for (const listener of this.#listeners) listener();
  }
}

/** An unreachable server is not the end: following resumes by itself and fetches the rest. */
function unlessPassing(error: unknown): void {
  if (error instanceof Problem && !error.transient) throw error;
}
