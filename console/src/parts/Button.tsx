import type { ButtonHTMLAttributes, Ref } from "react";
import { classes } from "./classes";

const LOOKS = {
  primary: "bg-accent text-on-accent hover:bg-accent-strong",
  plain: "border border-line bg-surface text-ink hover:bg-hover",
  quiet: "text-muted hover:bg-hover hover:text-ink",
  danger: "border border-line bg-surface text-bad hover:bg-bad-soft",
};

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: keyof typeof LOOKS;
  /** Square, for an icon; needs an aria-label. */
  square?: boolean;
  ref?: Ref<HTMLButtonElement>;
}

export function Button({ look = "plain", square = false, className, type = "button", ...rest }: Props) {
  return <button type={type} className={classes(buttonLook(look, square), className)} {...rest} />;
}

/** The same style for links. */
export function buttonLook(look: keyof typeof LOOKS, square = false): string {
  return classes(
    "inline-flex h-9 items-center justify-center gap-2 rounded-lg text-sm font-medium whitespace-nowrap transition-colors",
    "disabled:cursor-not-allowed disabled:opacity-50 aria-disabled:cursor-not-allowed aria-disabled:opacity-50",
    square ? "w-9 shrink-0" : "px-3.5",
    LOOKS[look],
  );
}
