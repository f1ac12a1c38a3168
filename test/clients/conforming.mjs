/** Plays what the conformance scenarios of MCP ask of a client: `node conforming.mjs <url>`. */
import { defineAgent } from '../../dist/src/index.js'
import { finishLogin, mcpTools } from '../../dist/src/mcp/index.js'
import { testTeam } from '../../dist/src/testing.js'

const url = process.argv.at(-1)
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? ''
const given = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}')
const memory = () => {
  let kept
  return {
    load: () => kept,
    save: (text) => {
      kept = text
    },
  }
}
function authOf() {
  if (!scenario.startsWith('auth/')) return undefined
  const { client_id: clientId, client_secret: secret, private_key_pem: key, signing_algorithm: algorithm } = given
  if (scenario === 'auth/client-credentials-basic') {
    process.env.SECRET = secret
    return { clientCredentials: { clientId, secretEnv: 'SECRET' } }
  }
  if (scenario === 'auth/client-credentials-jwt') {
    process.env.KEY = key
    return { privateKeyJwt: { clientId, keyEnv: 'KEY', ...(algorithm && { algorithm }) } }
  }
  if (secret) process.env.SECRET = secret
  return {
    interactive: {
      redirectUrl: 'http://localhost:3000/callback',
      tokens: memory(),
      clientMetadataUrl: 'https://conformance-test.local/client-metadata.json',
      ...(clientId && { clientId }),
      ...(secret && { secretEnv: 'SECRET' }),
    },
  }
}
const server = { url, auth: authOf() }
/** What a browser does: it follows the address to where the person comes back. */
async function back(address) {
  const response = await fetch(address, { redirect: 'manual' })
  return new URL(response.headers.get('location')).searchParams
}
let mcp
for (let logins = 0; !mcp; logins++)
  try {
    mcp = await mcpTools(server)
  } catch (error) {
    if (!error.details?.url || logins > 1) throw error
    await finishLogin(server, await back(error.details.url))
  }
const inputs = { add_numbers: { a: 5, b: 3 } }
const team = testTeam(
  { agents: [{ name: 'ann', tools: mcp.tools }], orchestration: { strategy: 'sequential' } },
  {
    modules: {
      ann: defineAgent({
        receive: async (_m, context) => {
          const outs = []
          for (const { name } of JSON.parse(_m.content))
            outs.push(await context.tool(name, inputs[name] ?? {}).catch((error) => `${error.message}`))
          return JSON.stringify(outs)
        },
      }),
    },
  },
)
const run = team.launch(JSON.stringify(mcp.tools.map(({ name }) => ({ name }))))
let logins = 0
const answering = (async () => {
  for await (const event of run.events({ types: ['question'] })) {
    if (event.type !== 'question') continue
    const address = /Open (\S+)$/.exec(event.text)?.[1]
    if (!address) await run.answer(event.questionId, '{}')
    else if (++logins > 2) await run.answer(event.questionId, 'declined')
    else await mcp.finishLogin(await back(address))
  }
})()
await run.result
await answering
await team.close()
await mcp.close()
