/** The door: a token for a session. */
import { post } from "../lib/api.mjs";
import { again } from "../lib/live.mjs";
import { Failed } from "../lib/parts.mjs";
import { html, useState } from "../lib/ui.mjs";

export function Login() {
  const [error, setError] = useState(null);
  const enter = async (event) => {
    event.preventDefault();
    const token = new FormData(event.currentTarget).get("token").trim();
    try {
      await post("/v1/session", { token });
      setError(null);
      await again();
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<main class="login"><form class="card" onSubmit=${enter}>
    <h1>Atoll</h1>
    <p>This service asks who calls. <code>atoll token create</code> makes a token.</p>
    <label>Token <input name="token" type="password" autocomplete="current-password" required autofocus /></label>
    <${Failed} error=${error} />
    <div class="row end"><button class="main">Log in</button></div>
  </form></main>`;
}
