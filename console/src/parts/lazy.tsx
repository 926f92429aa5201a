// Parts of the page that are loaded when they are first shown.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

export type { ComponentType };

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let found: ComponentType<P> | null = null;
  return function Lazy(properties: P) {
    const [Part, set] = useState<ComponentType<P> | null>(() => found);
    const [failure, setFailure] = useState<string | null>(null);
    useEffect(() => {
      if (Part) return;
      load().then(
        (part) => {
          found = part;
          set(() => part);
        },
        () => setFailure("This part of the console can’t be loaded: the server is away, or has another console now. Load the page again."),
      );
    }, []);
    if (Part) return <Part {...properties} />;
    return failure ? <p class="error padded" role="alert">{failure}</p> : <p class="hint padded">Loading…</p>;
  };
}
