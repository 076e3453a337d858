import { Link, useRouterState } from "@tanstack/react-router";
import { classes } from "../parts/classes";
import { Icon } from "../parts/Icon";
import { useTexts } from "../texts";
import { PLACES, placeOf } from "./places";

function usePlace() {
  return placeOf(useRouterState({ select: (state) => state.location.pathname }));
}

export function TopNavigation() {
  const { shell } = useTexts();
  const here = usePlace();
  return (
    <nav aria-label={shell.navigation} className="hidden gap-1 md:flex">
      {PLACES.map(({ name, to }) => (
        <Link
          key={name}
          to={to}
          aria-current={here?.name === name ? "page" : undefined}
          className={classes(
            "rounded-lg px-2 py-1.5 text-sm font-medium transition-colors lg:px-3",
            here?.name === name ? "bg-accent-soft text-accent-strong" : "text-muted hover:bg-hover hover:text-ink",
          )}
        >
          {shell[name]}
        </Link>
      ))}
    </nav>
  );
}

/** The navigation at the bottom, for phones. */
export function BottomNavigation() {
  const { shell } = useTexts();
  const here = usePlace();
  return (
    <nav
      aria-label={shell.navigation}
      className="grid grid-cols-5 border-t border-line bg-surface pb-[env(safe-area-inset-bottom)] md:hidden"
    >
      {PLACES.map(({ name, to }) => (
        <Link
          key={name}
          to={to}
          aria-current={here?.name === name ? "page" : undefined}
          className={classes(
            "flex flex-col items-center gap-0.5 py-2 text-[0.6875rem] font-medium -outline-offset-2",
            here?.name === name ? "text-accent" : "text-muted",
          )}
        >
          <Icon name={name} size={20} />
          <span className="low:sr-only">{shell[name]}</span>
        </Link>
      ))}
    </nav>
  );
}
