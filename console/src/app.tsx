// The frame of the console: sign-in, pages, theme and zone, and what is said while the server is away.
import { type ComponentType, lazy } from "./parts/lazy";
import { useEffect, useState } from "preact/hooks";
import { hasToken, isThere, placeBefore, Problem, setToken, signInState, signOut as endSession, type Table, tables } from "./api";
import { link, type Page, parse, type Place } from "./links";
import { SignIn } from "./parts/signin";
import { ThemeButton, ZoneField } from "./parts/settings";
import { Icon, type IconName } from "./parts/icon";
import { connection, useShared } from "./store";

export interface PageProperties {
  place: Place;
  tables: Table[];
  refresh: () => void;
}

const PAGES: { page: Page; title: string; icon: IconName; view: ComponentType<PageProperties> }[] = [
  { page: "query", title: "Query", icon: "query", view: lazy(() => import("./pages/query").then((module) => module.QueryPage)) },
  { page: "tables", title: "Tables", icon: "tables", view: lazy(() => import("./pages/tables").then((module) => module.TablesPage)) },
  { page: "live", title: "Live", icon: "live", view: lazy(() => import("./pages/live").then((module) => module.LivePage)) },
  { page: "server", title: "Server", icon: "server", view: lazy(() => import("./pages/server").then((module) => module.ServerPage)) },
];

/** How often a server that is away is looked for. */
const LOOK_MILLISECONDS = 1000;

type Access = { state: "asking" } | { state: "signed out"; problem: string | null } | { state: "in" };

export function App() {
  const [place, setPlace] = useState(parse(location.hash));
  const [access, setAccess] = useState<Access>({ state: "asking" });
  const [known, setKnown] = useState<Table[]>([]);
  const [needsToken, setNeedsToken] = useState(hasToken());
  const isGone = useShared(connection) === "gone";

  useEffect(() => {
    const moved = () => setPlace(parse(location.hash));
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);

  const refresh = () => {
    tables().then(
      (found) => {
        setKnown(found);
        setAccess({ state: "in" });
        connection.set("there");
        if (!hasToken()) void signInState().then(({ session }) => session && setNeedsToken(true), () => undefined);
        const before = placeBefore();
        if (before) location.hash = before;
      },
      (error: unknown) => {
        const code = error instanceof Problem ? error.code : "internal";
        if (code === "unreachable") return connection.set("gone");
        const isRefused = code === "unauthorized" || code === "forbidden";
        if (isRefused) setNeedsToken(true);
        const problem = isRefused && !hasToken() ? null : (error as Error).message;
        if (isRefused) setToken(null);
        setAccess({ state: "signed out", problem });
      },
    );
  };
  useEffect(refresh, []);

  // A server that is away is looked for until it is back; what it has may have changed by then.
  useEffect(() => {
    if (!isGone) return;
    const timer = setInterval(() => void isThere().then((is) => is && refresh()), LOOK_MILLISECONDS);
    return () => clearInterval(timer);
  }, [isGone]);

  const signOut = () => {
    if (!hasToken()) void endSession();
    setToken(null);
    setKnown([]);
    setAccess({ state: "signed out", problem: null });
  };

  const shown = PAGES.find(({ page }) => page === place.page) ?? PAGES[0]!;
  useEffect(() => {
    document.title = `${shown.title}${place.name ? ` · ${place.name}` : ""} – SplayDB`;
  }, [shown, place.name]);

  return (
    <>
      <a class="skip" href="#content" onClick={(event) => skipToContent(event)}>
        Skip to content
      </a>
      <header class="bar">
        <span class="brand">
          <Icon name="brand" /> SplayDB
        </span>
        <nav aria-label="Pages">
          {PAGES.map(({ page, title, icon }) => (
            <a href={link(page)} aria-current={page === shown.page ? "page" : undefined}>
              <Icon name={icon} />
              <span>{title}</span>
            </a>
          ))}
        </nav>
        <div class="bar-end">
          <ZoneField tables={known} />
          <ThemeButton />
          {needsToken && access.state === "in" && (
            <button type="button" class="quiet" onClick={signOut} title="Sign out">
              <Icon name="leave" />
              <span class="wide-only">Sign out</span>
            </button>
          )}
        </div>
      </header>
      <div role="status" class="away-place">
        {isGone && <p class="away">The server can’t be reached. The console goes on when it is back.</p>}
      </div>
      <main id="content" tabIndex={-1}>
        {access.state === "signed out" && (
          <SignIn
            problem={access.problem}
            onToken={(token) => {
              setToken(token);
              refresh();
            }}
          />
        )}
        {access.state === "in" && <shown.view place={place} tables={known} refresh={refresh} />}
      </main>
    </>
  );
}

function skipToContent(event: Event): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}
