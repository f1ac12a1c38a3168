/** Coding agents ask a team by MCP, each with a model of its provider on the loopback. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { ANN, listen } from '../../test/clients/shop.mjs'
import { serveModels } from './models.mjs'

const bin = resolve('node_modules', '.bin')
const QUERY = 'Ask the shop.'

/** Plays a program that knows nothing of this machine, and resolves to what it prints. */
async function said(program, args, home, env) {
  const path = [dirname(process.execPath), '/usr/bin', '/bin'].join(delimiter)
  const child = spawn(join(bin, program), args, {
    cwd: home,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: path, HOME: home, ...env },
    timeout: 90_000,
    killSignal: 'SIGKILL',
  })
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
  return `${out}\n${err}`
}

function write(home, name, content) {
  mkdirSync(dirname(join(home, name)), { recursive: true })
  writeFileSync(join(home, name), JSON.stringify(content))
}

const programs = {
  claude(home, url, models) {
    write(home, 'mcp.json', { mcpServers: { desk: { type: 'http', url, headers: ANN } } })
    const args = [
      '-p',
      QUERY,
      '--mcp-config',
      'mcp.json',
      '--strict-mcp-config',
      '--allowedTools',
      'mcp__desk__ask_shop',
    ]
    return said('claude', args, home, {
      ANTHROPIC_BASE_URL: models,
      ANTHROPIC_API_KEY: 'none',
      ENABLE_TOOL_SEARCH: 'false', // it would hide the tool behind a search
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    })
  },
  codex(home, url, models) {
    const config = {
      model: '"m"',
      model_provider: '"loop"',
      'model_providers.loop': `{name="loop",base_url="${models}/v1",wire_api="responses",env_key="KEY"}`,
      'mcp_servers.desk': `{url="${url}",http_headers={"x-caller"="${ANN['x-caller']}"}}`,
    }
    mkdirSync(join(home, '.codex'))
    const set = Object.entries(config).flatMap(([key, value]) => ['-c', `${key}=${value}`])
    const free = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox']
    return said('codex', ['exec', ...free, ...set, QUERY], home, { KEY: 'none' })
  },
  gemini(home, url, models) {
    write(home, '.gemini/settings.json', {
      security: { auth: { selectedType: 'gemini-api-key' } },
      mcpServers: { desk: { httpUrl: url, headers: ANN, trust: true } },
      privacy: { usageStatisticsEnabled: false },
    })
    return said('gemini', ['-y', '-m', 'gemini-2.5-flash', '-p', QUERY], home, {
      GEMINI_API_KEY: 'none',
      GOOGLE_GEMINI_BASE_URL: models,
      GEMINI_CLI_TRUST_WORKSPACE: 'true',
    })
  },
}

async function answerTo(query, program) {
  const home = mkdtempSync(join(tmpdir(), 'dramatis-'))
  const shop = await listen({ mcp: { waitMs: 2_000 } })
  const models = await serveModels(query)
  try {
    return { said: await program(home, `${shop.url}/mcp`, models.url), done: shop.done }
  } finally {
    models.close()
    await shop.close()
    rmSync(home, { recursive: true, force: true })
  }
}

for (const [name, program] of Object.entries(programs)) {
  test(`${name} gets the answer of the team`, async () => {
    const { said, done } = await answerTo('use find lamp', program)
    assert.match(said, /result: .*lamp/)
    assert.deepEqual(done, ['find lamp'])
  })

  test(`${name} is told that a call waits for the approval of others, and has nothing to answer`, async () => {
    const { said, done } = await answerTo('use pay lamp', program)
    assert.match(said, /waits for people other than you/)
    assert.deepEqual(done, [])
  })
}

test('claude has no person to ask when it prints, so nobody agrees to a call, and it does not run', async () => {
  const { said, done } = await answerTo('use buy lamp', programs.claude)
  assert.match(said, /A person did not agree/)
  assert.deepEqual(done, [])
})
