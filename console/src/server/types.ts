import type { Mistake } from "./ask";

export type SessionStatus = "idle" | "running" | "completed" | "failed" | "stopped";

export interface Session {
  id: string;
  agent_system_id: string;
  user_id?: string;
  created_at: number;
  position: number;
  status: SessionStatus;
  round: number;
  awaiting_user_input: boolean;
}

export interface ListedSystem {
  id: string;
  version: number;
  created_at: number;
  updated_at: number;
}

export interface Model {
  provider: string;
  model: string;
  [setting: string]: unknown;
}

export interface Agent {
  id: string;
  role: string;
  kind: string;
  description: string;
  graph?: string;
  model?: Model;
  tools?: string[];
  agents?: { id: string; allowed_tools?: string[]; mission_override?: string }[];
  config?: Record<string, unknown>;
}

/** The resolved configuration of an agent system. */
export interface System {
  id: string;
  version: number | null;
  versions: number[];
  created_at: number | null;
  description: string;
  orchestrator: string;
  agents: Agent[];
  tools: string[];
  models: string[];
  warnings: Mistake[];
  problems: Mistake[];
  [setting: string]: unknown;
}

export interface Tool {
  name: string;
  description: string;
  input_schema: Record<string, unknown>;
  output: string | null;
  timeout: number | null;
  idempotent: boolean;
  effects: string;
  runs_in: string;
  aliases: string[];
}
