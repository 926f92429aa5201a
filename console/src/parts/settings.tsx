import { useState } from "preact/hooks";
import type { Table } from "../api";
import { isZone } from "../format";
import { type Theme, theme, useShared, zone } from "../store";
import { Icon, type IconName } from "./icon";

const THEMES: Record<Theme, { next: Theme; icon: IconName }> = {
  system: { next: "light", icon: "system" },
  light: { next: "dark", icon: "sun" },
  dark: { next: "system", icon: "moon" },
};

export function ThemeButton() {
  const now = useShared(theme);
  const label = `Theme: ${now}`;
  return (
    <button type="button" class="quiet" aria-label={label} title={label} onClick={() => theme.set(THEMES[now].next)}>
      <Icon name={THEMES[now].icon} />
    </button>
  );
}

/** The zone that times are shown in. */
export function ZoneField({ tables }: { tables: Table[] }) {
  const now = useShared(zone);
  const [isWrong, setWrong] = useState(false);
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const near = [...new Set(["UTC", own, ...tables.map((table) => table.time_zone)])].filter((name) => name && isZone(name));
  const others = Intl.supportedValuesOf("timeZone").filter((name) => !near.includes(name));
  const change = (event: Event) => {
    const text = (event.currentTarget as HTMLInputElement).value.trim();
    setWrong(!isZone(text));
    if (isZone(text)) zone.set(text);
  };
  return (
    <span class="zone">
      <label for="zone">Times in</label>
      <input id="zone" list="zones" value={now} aria-invalid={isWrong} onChange={change} spellcheck={false} autoComplete="off" />
      <datalist id="zones">
        {[...near, ...others].map((name) => (
          <option value={name} />
        ))}
      </datalist>
    </span>
  );
}
