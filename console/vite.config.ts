import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import type { Plugin, Rollup } from "vite";
import { defineConfig } from "vitest/config";

const FIRST_PAGE = "pages/chat/ChatPage.tsx";
const BUDGET = 250_000;

/** The client is taken as it is written, so that nobody has to build it first. */
const client = (entry: string) => fileURLToPath(new URL(`../clients/typescript/src/${entry}.ts`, import.meta.url));

/** As Node takes it: what browsers are given sets innerHTML, which the policy of the page forbids. */
const entities = fileURLToPath(new URL("../node_modules/decode-named-character-reference/index.js", import.meta.url));

/** Everything that must have come before a chunk can run. */
function needed(bundle: Rollup.OutputBundle, name: string, found = new Set<string>()): Set<string> {
  const chunk = bundle[name];
  if (found.has(name) || chunk?.type !== "chunk") return found;
  found.add(name);
  for (const css of chunk.viteMetadata?.importedCss ?? []) found.add(css);
  for (const other of chunk.imports) needed(bundle, other, found);
  return found;
}

/** Fails the build if the page that a browser opens first has grown beyond its budget. */
function budget(): Plugin {
  return {
    name: "budget",
    enforce: "post",
    generateBundle(_, bundle) {
      const chunks = Object.values(bundle).filter((file) => file.type === "chunk");
      const first = chunks.filter((chunk) => chunk.isEntry || chunk.facadeModuleId?.endsWith(FIRST_PAGE));
      if (first.length !== 2) this.error(`expected the entry and ${FIRST_PAGE}, found ${first.length} chunks`);
      const files = new Set(first.flatMap((chunk) => [...needed(bundle, chunk.fileName)]));
      const size = [...files].reduce((sum, name) => {
        const file = bundle[name];
        return file ? sum + gzipSync(file.type === "chunk" ? file.code : file.source).length : sum;
      }, 0);
      this.info(`the first page is ${Math.round(size / 1000)} kB gzip of ${BUDGET / 1000}`);
      if (size > BUDGET)
        this.error(`the first page has ${size} bytes gzip, ${BUDGET} are allowed: load more on demand`);
    },
  };
}

export default defineConfig({
  base: "./", // the server may be mounted below any prefix
  resolve: {
    alias: {
      "@stellwerk/client/react": client("react"),
      "@stellwerk/client": client("index"),
      "decode-named-character-reference": entities,
    },
  },
  plugins: [react(), tailwindcss(), budget()],
  build: {
    outDir: "../src/stellwerk/console",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the policy of the page allows no data: script, and one rule is easier than two
    reportCompressedSize: false,
  },
  // No test leaves anything behind, and a new world for each file would take longer than all tests.
  test: { include: ["src/**/*.test.{ts,tsx}"], testTimeout: 60_000, isolate: false },
});
