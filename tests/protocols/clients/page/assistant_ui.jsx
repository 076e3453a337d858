import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  ErrorPrimitive,
  makeAssistantToolUI,
  MessagePrimitive,
  ThreadPrimitive,
} from "@assistant-ui/react";
import { useAISDKRuntime } from "@assistant-ui/react-ai-sdk";
import { Result, useStoredChat } from "./chat.jsx";

const AskUser = makeAssistantToolUI({
  toolName: "ask_user",
  render: ({ args, result, addResult }) => (
    <div className="tool">
      <div className="name">ask_user</div>
      <div>{args.question}</div>
      {result === undefined &&
        args.options?.map((each) => <button key={each} type="button" onClick={() => addResult(each)}>{each}</button>)}
      <Result value={result} />
    </div>
  ),
});

function Tool({ toolName, args, result, approval, respondToApproval }) {
  return (
    <div className="tool">
      <div className="name">{toolName}</div>
      {approval && approval.approved === undefined && (
        <>
          <div>{JSON.stringify(args)}</div>
          <button type="button" onClick={() => respondToApproval({ approved: true })}>Approve</button>
          <button type="button" onClick={() => respondToApproval({ approved: false })}>Reject</button>
        </>
      )}
      <Result value={result} />
    </div>
  );
}

const UserMessage = () => (
  <MessagePrimitive.Root className="user">
    <MessagePrimitive.Parts />
  </MessagePrimitive.Root>
);

const AssistantMessage = () => (
  <MessagePrimitive.Root className="assistant">
    <MessagePrimitive.Parts components={{ tools: { Fallback: Tool } }} />
    <MessagePrimitive.Error>
      <ErrorPrimitive.Root className="error">
        <ErrorPrimitive.Message />
      </ErrorPrimitive.Root>
    </MessagePrimitive.Error>
  </MessagePrimitive.Root>
);

export function AssistantPage({ messages }) {
  const runtime = useAISDKRuntime(useStoredChat(messages));
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <AskUser />
      <ThreadPrimitive.Root className="thread">
        <ThreadPrimitive.Viewport className="messages">
          <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage }} />
        </ThreadPrimitive.Viewport>
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Message" rows={1} />
          <ThreadPrimitive.If running={false}>
            <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
          </ThreadPrimitive.If>
          <ThreadPrimitive.If running>
            <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
          </ThreadPrimitive.If>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}
