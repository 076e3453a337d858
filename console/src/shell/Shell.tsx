import { Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { Dialog } from "../parts/Dialog";
import { useShortcuts } from "../state/shortcuts";
import { useTexts } from "../texts";
import { Header } from "./Header";
import { useNoDrop } from "./ignoreDrops";
import { BottomNavigation } from "./Navigation";
import { PLACES } from "./places";
import { ShortcutList } from "./ShortcutList";
import { Sidebar } from "./Sidebar";

/** The frame of every page: navigation and sessions. */
export function Shell() {
  const { shell } = useTexts();
  const [drawer, setDrawer] = useState(false);
  const [help, setHelp] = useState(false);
  const main = useRef<HTMLElement>(null);
  const navigate = useNavigate();
  const path = useRouterState({ select: (state) => state.location.pathname });
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs when the path changes
  useEffect(() => {
    setDrawer(false);
    main.current?.scrollTo(0, 0);
  }, [path]);
  useNoDrop();
  useShortcuts({
    "?": () => setHelp(true),
    n: () => navigate({ to: "/" }),
    ...Object.fromEntries(PLACES.map(({ key, to }) => [`g ${key}`, () => navigate({ to })])),
  });
  return (
    <div className="flex h-dvh flex-col">
      <button
        type="button"
        className="sr-only focus:not-sr-only focus:absolute focus:top-2 focus:left-2 focus:z-30 focus:rounded-lg focus:bg-raised focus:px-4 focus:py-2 focus:shadow-float"
        onClick={() => main.current?.focus()}
      >
        {shell.skip}
      </button>
      <Header onSessions={() => setDrawer(true)} onHelp={() => setHelp(true)} />
      <div className="flex min-h-0 flex-1">
        <aside aria-label={shell.sessions} className="hidden w-72 shrink-0 border-r border-line bg-surface lg:block">
          <Sidebar />
        </aside>
        <main ref={main} tabIndex={-1} className="min-w-0 flex-1 overflow-y-auto outline-none">
          <Outlet />
        </main>
      </div>
      <BottomNavigation />
      <Dialog open={drawer} onClose={() => setDrawer(false)} title={shell.sessions} place="left">
        <Sidebar titled={false} />
      </Dialog>
      <Dialog open={help} onClose={() => setHelp(false)} title={shell.shortcuts}>
        <ShortcutList />
      </Dialog>
    </div>
  );
}
