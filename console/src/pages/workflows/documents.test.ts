import type { WorkflowDocument, WorkflowMessage } from "@stellwerk/client";
import { expect, test } from "vitest";
import { bytesOf, madeIn } from "./documents";

const document = (id: string, name: string, size: number): WorkflowDocument => ({
  ...{ id, name, size, fileId: 1, ext: "md", mimeType: "text/markdown" },
  ...{ data: null, dataUrl: "", contents: [], error: null },
});
const said = (agentName: string, words: number, ...documents: WorkflowDocument[]): WorkflowMessage => {
  const bytes = words + documents.reduce((sum, { size }) => sum + size, 0);
  const [bytesReceived, bytesSent] = agentName ? [0, bytes] : [bytes, 0];
  return {
    ...{ id: agentName, workflowId: "w", parentMessageId: null, startedAt: "", finishedAt: null, sequenceNo: 1 },
    ...{ status: "step", role: agentName ? "assistant" : "user", agentName, content: "", documents },
    dataStats: { bytesReceived, bytesSent, tokensUsed: 0, processingTime: 0 },
  };
};

test("a file named by a task and by the last message was made by the task and is delivered once", () => {
  const [upload, report, again] = [document("u", "in", 100), document("r", "report", 30), document("s", "report", 40)];
  const messages = [said("", 5, upload), said("writer", 1, report), said("writer", 1, again), said("office", 2, again)];
  expect(bytesOf(messages)).toEqual({ received: 105, sent: 1 + 30 + 1 + 40 + 2 });
  expect(madeIn(messages)).toEqual([{ document: again, agent: "writer" }]);
});
