/** Response bodies of the routes for jobs; see docs/howto/jobs.md. */

/** A message that is sent by a schedule. */
export interface Cron {
  readonly id: string;
  readonly schedule: string;
  readonly timezone: string;
  /** Each tick begins a session with it; null if the message goes to `session_id`. */
  readonly agent_system_id: string | null;
  readonly session_id: string | null;
  readonly user_id: string | null;
  readonly message: {
    readonly text?: string;
    readonly documents?: readonly string[];
    readonly input?: unknown;
    readonly config?: Readonly<Record<string, unknown>>;
    readonly context?: Readonly<Record<string, unknown>>;
    readonly if_busy?: "reject" | "enqueue" | "interrupt";
    readonly webhook?: string;
  };
  readonly on_completion: "keep" | "delete";
  readonly enabled: boolean;
  readonly created_at: number;
  /** Null if it is not enabled. */
  readonly next_tick: number | null;
  readonly last: CronTick | null;
}

/** The last tick of a cron: the run that it started, or why it started none. */
export interface CronTick {
  readonly tick: number;
  readonly session_id: string | null;
  readonly run_id: string | null;
  readonly error: string | null;
}

/** A run that was accepted and starts later. */
export interface DelayedRun {
  readonly run_id: string;
  readonly session_id: string;
  readonly agent_system_id: string;
  readonly start_at: number;
  readonly accepted_at: number;
}

/** The report of a run's end to a webhook. */
export interface WebhookDelivery {
  /** The same in `webhook-id` of each attempt. */
  readonly id: string;
  readonly session_id: string;
  readonly run_id: string;
  /** Without its query. */
  readonly url: string;
  readonly state: "pending" | "delivered" | "failed";
  readonly attempts: number;
  /** Of the last attempt: the status of the response, or what went wrong. */
  readonly outcome: string | null;
  readonly created_at: number;
  readonly next_attempt_at: number | null;
  readonly ended_at: number | null;
}
