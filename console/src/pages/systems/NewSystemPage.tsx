import { MayNot } from "../../parts/MayNot";
import { Page } from "../../parts/Page";
import { useMay } from "../../state/may";
import { useTexts } from "../../texts";
import { SystemEditor } from "./SystemEditor";

/** Something that works at once, and shows the fields one begins with. */
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
  const mayRegister = useMay("register");
  return (
    <Page title={words.newTitle} lead={mayRegister && words.newLead}>
      {mayRegister ? <SystemEditor name="" initial={BEGINNING} fresh /> : <MayNot scope="register" />}
    </Page>
  );
}
