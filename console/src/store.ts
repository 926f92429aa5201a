// What several parts of the page share: the zone of times, the theme, whether the server is there, who is signed in.
import { useEffect, useState } from "preact/hooks";
import { isZone } from "./format";

/** A value that parts of the page follow. */
export class Shared<T> {
  private readonly followers = new Set<(value: T) => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T): void {
    if (Object.is(value, this.current)) return;
    this.current = value;
    for (const follower of this.followers) follower(value);
  }

  follow(follower: (value: T) => void): () => void {
    this.followers.add(follower);
    return () => void this.followers.delete(follower);
  }
}

export function useShared<T>(shared: Shared<T>): T {
  const [value, set] = useState(shared.value);
  useEffect(() => {
    set(() => shared.value);
    return shared.follow((next) => set(() => next));
  }, [shared]);
  return value;
}

/** A value that the browser remembers. */
function remembered<T extends string>(key: string, initial: T, isValid: (text: string) => boolean): Shared<T> {
  const stored = localStorage.getItem(key);
  const shared = new Shared<T>(stored !== null && isValid(stored) ? (stored as T) : initial);
  shared.follow((value) => localStorage.setItem(key, value));
  return shared;
}

export type Theme = "system" | "light" | "dark";

export const zone = remembered<string>("splay.zone", "UTC", isZone);
export const theme = remembered<Theme>("splay.theme", "system", (text) => ["system", "light", "dark"].includes(text));

const dark = matchMedia("(prefers-color-scheme: dark)");

/** Whether the page is dark now, whoever wants it so. */
export const isDark = new Shared(false);

function applyTheme(): void {
  const now = theme.value === "system" ? dark.matches : theme.value === "dark";
  document.documentElement.dataset["theme"] = now ? "dark" : "light";
  isDark.set(now);
}

theme.follow(applyTheme);
dark.addEventListener("change", applyTheme);
applyTheme();

/** Whether the server answers. */
export const connection = new Shared<"there" | "gone">("there");
