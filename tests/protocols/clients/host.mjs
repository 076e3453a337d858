// Calls the functions of a script for a test: one JSON line in for each call, one out for each result and each event.
//
// `node host.mjs script.mjs` reads {"id", "call", "with"} from standard input and answers {"id", "result"} or
// {"id", "error"}. A function gets what is under "with", and `emit(name, value)`, which answers {"id", "event", "value"}
// while the call goes on. Calls run side by side. The process ends with its standard input.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const write = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
console.log = console.error; // standard output belongs to the answers

process.on("unhandledRejection", (error) => write({ unhandled: String(error?.stack ?? error) }));

const script = await import(pathToFileURL(process.argv[2]));

async function run({ id, call, with: given }) {
  const emit = (event, value) => write({ id, event, value });
  try {
    write({ id, result: (await script[call](given ?? {}, emit)) ?? null });
  } catch (error) {
    write({ id, error: String(error?.stack ?? error) });
  }
}

for await (const line of createInterface({ input: process.stdin })) void run(JSON.parse(line));
process.exit(0);
