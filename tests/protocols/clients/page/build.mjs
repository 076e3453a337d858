// Builds the pages into the folder that is named: `node build.mjs folder`.

import { fileURLToPath } from "node:url";
import { build } from "vite";

await build({
  root: fileURLToPath(new URL(".", import.meta.url)),
  configFile: false,
  logLevel: "error",
  oxc: { jsx: { runtime: "automatic" } },
  define: { "process.env.NODE_ENV": '"production"' },
  build: { outDir: process.argv[2], emptyOutDir: true, target: "esnext" },
});
