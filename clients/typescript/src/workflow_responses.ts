/** Response bodies of the workflow routes; see docs/reference/workflows.md. */
type Step = "first" | "step" | "last";
type WorkflowStatusName = "running" | "completed" | "stopped" | "failed";

export interface WorkflowStarted {
  readonly id: string;
  readonly status: string;
  readonly currentRound: number;
}

export interface WorkflowStatus {
  readonly status: WorkflowStatusName;
  readonly lastActivity: string;
}

export interface WorkflowHead extends WorkflowStatus {
  readonly id: string;
  readonly mandateId: number;
  readonly userId: number;
  readonly name: string;
  readonly startedAt: string;
  readonly currentRound: number;
  readonly awaitingUserInput: boolean;
  /** In the last round, once it has ended. */
  readonly failedTasks: number;
}

export interface DataStats {
  readonly bytesSent: number;
  readonly bytesReceived: number;
  readonly tokensUsed: number;
  readonly processingTime: number;
}

export interface ContentItem {
  readonly sequenceNr: number;
  readonly name: string;
  readonly ext: string;
  readonly contentType: string;
  readonly data: string | null;
  readonly dataExtracted: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly summary: string;
}

export interface WorkflowDocument {
  readonly id: string;
  readonly fileId: number;
  readonly name: string;
  readonly ext: string;
  readonly mimeType: string;
  readonly size: number;
  readonly data: string | null;
  readonly dataUrl: string;
  readonly contents: readonly ContentItem[];
  readonly error: { readonly code: string; readonly message: string } | null;
}

export interface WorkflowMessage {
  readonly id: string;
  readonly workflowId: string;
  readonly parentMessageId: string | null;
  readonly startedAt: string;
  readonly finishedAt: string | null;
  readonly sequenceNo: number;
  readonly status: Step;
  readonly role: string;
  readonly dataStats: DataStats;
  readonly documents: readonly WorkflowDocument[];
  readonly content: string;
  readonly agentName: string;
}

export interface WorkflowLog {
  readonly id: string;
  readonly workflowId: string;
  readonly message: string;
  readonly type: "info" | "warning" | "error";
  readonly timestamp: string;
  readonly agentName: string;
  readonly status: WorkflowStatusName;
  readonly progress: number | null;
  readonly mandateId: number;
  readonly userId: number;
}

export interface Workflow extends WorkflowHead {
  readonly dataStats: DataStats;
  readonly messageIds: readonly string[];
  readonly messages: readonly WorkflowMessage[];
  readonly logs: readonly WorkflowLog[];
}
