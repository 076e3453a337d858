import { createRoot } from "react-dom/client";
import { AssistantPage } from "./assistant_ui.jsx";
import { kind, load } from "./chat.jsx";
import { UseChatPage } from "./use_chat.jsx";

const Page = kind === "assistant-ui" ? AssistantPage : UseChatPage;
createRoot(document.getElementById("root")).render(<Page messages={await load()} />);
