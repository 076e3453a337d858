import { useQueryClient } from "@tanstack/react-query";
import type { FormEvent } from "react";
import { Button } from "../parts/Button";
import { Dialog } from "../parts/Dialog";
import { Field } from "../parts/Field";
import { putKeyOff, showKey, useHasKey, useKeyWanted } from "../server/key";
import { useTexts } from "../texts";

/** Opens after a 401; a new key reloads all data. */
export function KeyDialog() {
  const { shell } = useTexts();
  const wanted = useKeyWanted();
  const open = wanted === "asked" || wanted === "refused";
  const isWrong = useHasKey() && wanted === "refused";
  const queries = useQueryClient();
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const key = String(new FormData(event.currentTarget).get("key") ?? "").trim();
    if (!key) return;
    showKey(key);
    queries.resetQueries();
  };
  return (
    <Dialog open={open} onClose={() => open && putKeyOff()} title={shell.keyTitle}>
      <form onSubmit={send} className="space-y-5">
        <p className="text-muted">{shell.keyWhy}</p>
        <Field
          label={shell.keyLabel}
          name="key"
          type="password"
          autoComplete="off"
          placeholder="sw_…"
          data-autofocus
          error={isWrong && shell.keyWrong}
        />
        <div className="flex justify-end">
          <Button type="submit" look="primary">
            {shell.keySend}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
