import { NotAllowed } from "../../parts/NotAllowed";
import { Page } from "../../parts/Page";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";
import { SystemEditor } from "./SystemEditor";

/** A minimal system that works, with the first fields a user needs. */
const BEGINNING = `version: 1
system:
  name: helpdesk
  description: Answers questions about the weather.
agents:
  - id: assistant
    role: orchestrator
    system_prompt: You answer questions about the weather.
    model: # needs no key and says what is written here; another one: {provider: openai, model: …}
      provider: scripted
      script:
        - when: weather
          steps:
            - {say: "I shall look. ", call: get_weather, args: {city: Berlin}}
            - {say: "This is the weather: {result}"}
        - steps: [{say: "Ask me about the weather."}]
    tools:
      allow: [get_weather, researcher]
  - id: researcher
    role: sub-agent
    description: Looks things up.
    system_prompt: You find out what is asked, and say where it is from.
    tools:
      allow: [get_weather]
`;

export function NewSystemPage() {
  const { systems: words } = useTexts();
  const mayRegister = useScope("register");
  return (
    <Page title={words.newTitle} lead={mayRegister && words.newLead}>
      {mayRegister ? <SystemEditor name="" initial={BEGINNING} fresh /> : <NotAllowed scope="register" />}
    </Page>
  );
}
