/** The conformance scenarios that the project of MCP has for clients, played by `mcpTools`. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const program = here('node_modules/@modelcontextprotocol/conformance/dist/index.js')
const client = here('conforming.mjs')

/**
 * Left out: what needs a provider of an enterprise, and `auth/2025-03-26-oauth-metadata-backcompat`, whose document
 * names another issuer than its place, which the protocol's own package refuses (RFC 8414, 3.3).
 */
const SCENARIOS = [
  'initialize',
  'tools_call',
  'elicitation-sep1034-client-defaults',
  'sse-retry',
  ...['metadata-default', 'metadata-var1', 'metadata-var2', 'metadata-var3', 'basic-cimd', 'pre-registration'],
  ...['scope-from-www-authenticate', 'scope-from-scopes-supported', 'scope-omitted-when-undefined'],
  ...['scope-step-up', 'scope-retry-limit', 'resource-mismatch', '2025-03-26-oauth-endpoint-fallback'],
  ...['token-endpoint-auth-basic', 'token-endpoint-auth-post', 'token-endpoint-auth-none'],
  ...['client-credentials-jwt', 'client-credentials-basic'],
].map((name, at) => (at < 4 ? name : `auth/${name}`))

for (const scenario of SCENARIOS)
  test(`mcpTools passes ${scenario}`, async () => {
    const args = ['client', '--command', `${process.execPath} ${client}`, '--scenario', scenario, '--timeout', '60000']
    const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
    const [out, errors] = await Promise.all([child.stdout.toArray(), child.stderr.toArray()])
    const said = Buffer.concat([...out, ...errors]).toString()
    assert.match(said, /Passed: (\d+)\/\1, 0 failed/, said.slice(-4_000))
  })
