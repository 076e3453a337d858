/** A real server on loopback, in a process of its own, that can be killed and started again on the same port. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const PYTHON = process.env.STELLWERK_PYTHON ?? new URL("../../../.venv/bin/python", import.meta.url).pathname;

export class Server {
  readonly #data = mkdtempSync(join(tmpdir(), "stellwerk-"));
  #process: ChildProcess | undefined;
  url = "";

  async start(): Promise<void> {
    const port = this.url === "" ? "0" : new URL(this.url).port;
    const command = ["-m", "stellwerk", "serve", "--port", port, "--data", this.#data];
    const server = spawn(PYTHON, command, { stdio: ["ignore", "pipe", "pipe"] });
    this.#process = server;
    let complaints = "";
    server.stderr.on("data", (piece) => {
      complaints = (complaints + piece).slice(-2000);
    });
    for await (const line of createInterface(server.stdout)) {
      const found = / is ready .* (http:\/\/[^/\s]+)/.exec(line);
      if (found?.[1] === undefined) continue;
      this.url = found[1];
      server.stdout.resume();
      return;
    }
    throw new Error(`the server did not start; it said: ${complaints}`);
  }

  async kill(): Promise<void> {
    const server = this.#process;
    this.#process = undefined;
    if (server === undefined || server.exitCode !== null) return;
    const gone = once(server, "exit");
    server.kill("SIGKILL");
    await gone;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.#data, { recursive: true, force: true });
  }
}
