import { Tabs as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { classes } from "./classes";

interface Props {
  label: string;
  tabs: readonly { id: string; label: ReactNode; content: ReactNode }[];
  value?: string;
  onChange?: (id: string) => void;
  /** Fills the available height, each panel scrolling by itself; for a narrow column. */
  filling?: boolean;
}

export function Tabs({ label, tabs, value, onChange, filling = false }: Props) {
  return (
    <Radix.Root
      defaultValue={tabs[0]?.id}
      value={value}
      onValueChange={onChange}
      className={classes(filling && "flex h-full min-h-0 flex-col")}
    >
      <Radix.List
        aria-label={label}
        className={classes("flex overflow-x-auto border-b border-line", filling ? "shrink-0 px-2" : "mb-5 gap-1")}
      >
        {tabs.map((tab) => (
          <Radix.Trigger
            key={tab.id}
            value={tab.id}
            className={classes(
              "-mb-px border-b-2 border-transparent py-2.5 text-sm font-medium whitespace-nowrap text-muted -outline-offset-2 hover:text-ink data-[state=active]:border-accent data-[state=active]:text-ink",
              filling ? "px-1.5 first:pl-2" : "px-3",
            )}
          >
            {tab.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map((tab) => (
        <Radix.Content
          key={tab.id}
          value={tab.id}
          className={filling ? "min-h-0 flex-1 overflow-y-auto -outline-offset-2" : "rounded-lg"}
        >
          {tab.content}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}
