import { useEffect, useRef } from "preact/hooks";

/** Asks for a token. It is kept for this tab alone, and sent in a header. */
export function SignIn({ problem, onToken }: { problem: string | null; onToken: (token: string) => void }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), [problem]);
  const submit = (event: Event) => {
    event.preventDefault();
    const token = field.current?.value.trim();
    if (token) onToken(token);
  };
  return (
    <form class="sign-in card" onSubmit={submit}>
      <h1>Sign in</h1>
      <p>
        This server asks for a token. <code>splay token NAME</code> makes one; the console needs the role <code>read</code>.
      </p>
      <label for="token">Token</label>
      <input id="token" ref={field} type="password" autoComplete="current-password" spellcheck={false} aria-describedby="token-problem" aria-invalid={problem !== null} required />
      <p id="token-problem" class="error" role="alert">
        {problem}
      </p>
      <button type="submit" class="main">
        Sign in
      </button>
      <p class="hint">The token stays in this tab until it is closed, or until you sign out.</p>
    </form>
  );
}
