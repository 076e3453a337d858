import { Problem } from "@stellwerk/client";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Toasts } from "./parts/Toast";
import { router } from "./router";
import { Outdated } from "./server/lazyChunks";
import { makeQueryClient } from "./server/queries";
import { KeyDialog } from "./shell/KeyDialog";
import { drainAll } from "./state/outbox";
import { showTheme, storedTheme } from "./state/theme";
import { TextsProvider } from "./texts";
import "./theme.css";

showTheme(storedTheme());
drainAll();

/** An unreachable server or an outdated console is not a bug of this page; it handles both. */
function reportBug(error: unknown): void {
  if (!(error instanceof Problem || error instanceof Outdated)) console.error(error);
}

const root = document.getElementById("root");
if (root)
  createRoot(root, { onCaughtError: reportBug }).render(
    <StrictMode>
      <QueryClientProvider client={makeQueryClient()}>
        <TextsProvider>
          <Toasts>
            <RouterProvider router={router} />
            <KeyDialog />
          </Toasts>
        </TextsProvider>
      </QueryClientProvider>
    </StrictMode>,
  );
