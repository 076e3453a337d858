import { useState } from "react";
import { Result, useStoredChat } from "./chat.jsx";

export function UseChatPage({ messages }) {
  const chat = useStoredChat(messages);
  const [text, setText] = useState("");
  const isBusy = chat.status === "submitted" || chat.status === "streaming";
  return (
    <>
      <div className="messages">
        {chat.messages.map((message) => (
          <div key={message.id} className={message.role}>
            {message.parts.map((part, place) => (
              <Part key={part.toolCallId ?? place} part={part} chat={chat} />
            ))}
          </div>
        ))}
        {chat.error && <div className="error">{chat.error.message}</div>}
      </div>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          chat.sendMessage({ text });
          setText("");
        }}
      >
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        {isBusy ? <button type="button" onClick={chat.stop}>Stop</button> : <button type="submit">Send</button>}
      </form>
    </>
  );
}

function Part({ part, chat }) {
  if (part.type === "text") return part.text;
  if (part.type === "file") return <div className="tool">📄 <a href={part.url}>{part.filename}</a></div>;
  if (part.type === "data-agent") return <div className="tool"><span className="name">{part.data.name}: {part.data.status}</span></div>;
  if (part.type !== "dynamic-tool") return null;
  const answer = (output) => chat.addToolOutput({ tool: part.toolName, toolCallId: part.toolCallId, output });
  const decide = (approved) => chat.addToolApprovalResponse({ id: part.approval.id, approved });
  return (
    <div className="tool">
      <div className="name">{part.toolName}</div>
      {part.toolName === "ask_user" && <div>{part.input?.question}</div>}
      {part.toolName === "ask_user" &&
        part.state === "input-available" &&
        part.input.options?.map((option) => <button key={option} type="button" onClick={() => answer(option)}>{option}</button>)}
      {part.state === "approval-requested" && (
        <>
          <div>{JSON.stringify(part.input)}</div>
          <button type="button" onClick={() => decide(true)}>Approve</button>
          <button type="button" onClick={() => decide(false)}>Reject</button>
        </>
      )}
      {part.state === "output-error" ? <div className="error">{part.errorText}</div> : <Result value={part.output} />}
    </div>
  );
}
