import { chat, questions } from "./chat";
import { events } from "./events";
import { jobs } from "./jobs";
import { panel } from "./panel";
import { parts, problems, status } from "./parts";
import { replay } from "./replay";
import { shell } from "./shell";
import { systems } from "./systems";
import { tools } from "./tools";
import { workflows } from "./workflows";

export const en = {
  language: "en",
  parts,
  problems,
  status,
  shell,
  chat,
  questions,
  events,
  jobs,
  panel,
  replay,
  systems,
  tools,
  workflows,
};
