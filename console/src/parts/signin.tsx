import { useEffect, useRef, useState } from "preact/hooks";
import { leaveToSignIn, signInState, type SignInState } from "../api";

/** Asks for a token, which is kept for this tab alone and sent in a header; or sends to the provider that the server names. */
export function SignIn({ problem, onToken }: { problem: string | null; onToken: (token: string) => void }) {
  const field = useRef<HTMLInputElement>(null);
  const [provider, setProvider] = useState<SignInState["oidc"]>(null);
  useEffect(() => field.current?.focus(), [problem]);
  // A server that can't say has none.
  useEffect(() => void signInState().then(({ oidc }) => setProvider(oidc), () => undefined), []);
  const submit = (event: Event) => {
    event.preventDefault();
    const token = field.current?.value.trim();
    if (token) onToken(token);
  };
  return (
    <form class="sign-in card" onSubmit={submit}>
      <h1>Sign in</h1>
      {provider && (
        <p>
          <a
            class="main provider"
            href={provider.path}
            onClick={(event) => {
              event.preventDefault();
              leaveToSignIn(provider.path);
            }}
          >
            Sign in with {provider.name}
          </a>
        </p>
      )}
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
