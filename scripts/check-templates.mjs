/**
 * Makes a project of each template of `npm create dramatis`, from packed packages, and has it run, tested, built and
 * served as its README says. Processes are killed on the way, since that is what the templates are about.
 *
 *   node scripts/check-templates.mjs [tarball of dramatis]
 *
 * `npm run test:packed` does it with the tarball that it has.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { check, counts, env, expect, install, installLimitMs, limitMs, run, sumUp } from './checks.mjs'
import { root } from './files.mjs'

const JSON_BODY = { 'content-type': 'application/json' }

/** `home`: a folder for the projects. `tarball`: dramatis, packed. */
export async function checkTemplates(home, tarball) {
  const creator = join(home, 'creator')
  const project = (name) => join(home, name)
  const npm = (name, ...args) => run('npm', args, { cwd: project(name), timeout: installLimitMs })
  /** Makes a project, and installs it with the tarball in place of what the registry has. */
  const make = (name, template, ...flags) => {
    const bin = join(creator, 'node_modules/.bin/create-dramatis')
    run(bin, [name, '--template', template, '--no-install', ...flags], { cwd: home })
    npm(name, ...install, tarball)
  }

  await check('create-dramatis is packed, and makes each template as JavaScript that Node reads', () => {
    mkdirSync(creator)
    const args = ['pack', '--pack-destination', creator, '--loglevel=error']
    const packed = run('npm', args, { cwd: join(root, 'packages/create-dramatis') }).trim()
    writeFileSync(join(creator, 'package.json'), '{ "private": true }\n')
    run('npm', [...install, join(creator, packed)], { cwd: creator })
    for (const template of readdirSync(join(root, 'packages/create-dramatis/templates'))) {
      if (template === 'shared') continue
      run(
        join(creator, 'node_modules/.bin/create-dramatis'),
        [`js-${template}`, '--template', template, '--js', '--no-install'],
        {
          cwd: home,
        },
      )
      const files = readdirSync(project(`js-${template}`))
      if (files.some((file) => file.endsWith('.ts'))) throw new Error(`${template} --js has ${files.join(', ')}`)
      for (const file of files.filter((each) => each.endsWith('.js')))
        run(process.execPath, ['--check', file], { cwd: project(`js-${template}`) })
    }
  })
  await check('hello answers without a key, and its suite passes', () => {
    make('hello', 'hello')
    expect(npm('hello', 'start'), '[rehearsal]')
    expect(npm('hello', 'test'), 'hello: passed')
    npm('hello', 'run', 'check')
  })
  await check('team passes its tests, its suite and its types', () => {
    make('team', 'team')
    npm('team', 'test')
    npm('team', 'run', 'check')
    expect(npm('team', 'run', 'eval'), 'team: passed')
  })
  await check('service answers, streams, is a model and a tool to others, and drains at SIGTERM', async () => {
    make('service', 'service')
    npm('service', 'test')
    // a task that takes longer than the server leaves to connections after its end
    const counter = join(project('service'), 'counter.ts')
    const begins = 'receive({ content }) {'
    const slow = `async ${begins.replace('}', '}, context')}\n    if (content === 'slow') await context.sleep(7_000)`
    writeFileSync(counter, readFileSync(counter, 'utf8').replace(begins, slow))
    npm('service', 'run', 'build')
    expect(npm('service', 'run', 'eval'), 'editing: passed')
    await withServer(project('service'), ['dist/server.js'], {}, async (service) => {
      const { url } = service
      const body = JSON.stringify({ query: 'Less is more.' })
      const asked = await fetch(`${url}/api/tasks`, { method: 'POST', headers: JSON_BODY, body })
      expect(`${asked.status} ${await asked.text()}`, '200 ')
      expect(await (await fetch(`${url}/v1/models`)).text(), '"editing"')
      expect(await (await fetch(url)).text(), '<html')
      expect(String((await fetch(`${url}/readyz`)).status), '200')
      const mcp = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
      const headers = { ...JSON_BODY, accept: 'application/json, text/event-stream' }
      const tools = await fetch(`${url}/mcp`, { method: 'POST', headers, body: JSON.stringify(mcp) })
      expect(await tools.text(), 'ask_editing')
      // a task that has begun when the signal comes is told to its end
      const stream = await fetch(`${url}/api/tasks`, {
        method: 'POST',
        headers: { ...JSON_BODY, accept: 'text/event-stream' },
        body: JSON.stringify({ query: 'slow' }),
      })
      const frames = stream.body.pipeThrough(new TextDecoderStream())
      let told = ''
      for await (const frame of frames) {
        if (told === '') service.process.kill('SIGTERM')
        told += frame
      }
      expect(told, 'event: run.finished')
      expect(String(await service.ended), '0')
    })
  })
  await check('desk, in JavaScript, is killed while it asks; the next process refunds once', async () => {
    make('desk', 'desk', '--js')
    npm('desk', 'test')
    expect(npm('desk', 'run', 'eval'), 'desk: passed')
    const tokens = { ANN_TOKEN: 'ann-0123456789abcdef', STAFF_TOKEN: 'sam-0123456789abcdef' }
    const as = (token) => ({ ...JSON_BODY, authorization: `Bearer ${token}` })
    await withServer(project('desk'), ['server.js'], tokens, async (first) => {
      expect(await (await fetch(first.url)).text(), '<title>Desk</title>')
      const parts = [{ type: 'text', text: 'Please refund my order A-7.' }]
      const chat = { id: 'chat-1', trigger: 'submit-message', messages: [{ id: 'm1', role: 'user', parts }] }
      const headers = as(tokens.ANN_TOKEN)
      const answer = await fetch(`${first.url}/api/chat`, { method: 'POST', headers, body: JSON.stringify(chat) })
      let said = ''
      for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
        said += piece
        if (said.includes('data-approval')) break
      }
      expect(said, 'data-approval')
      first.process.kill('SIGKILL')
      await first.ended
    })
    await withServer(project('desk'), ['server.js'], tokens, async (second) => {
      const headers = as(tokens.STAFF_TOKEN)
      const { questions } = await (await fetch(`${second.url}/api/questions`, { headers })).json()
      const [{ taskId, questionId, digest, text }] = questions
      expect(text, 'kettle') // who agrees sees what is paid back
      const agree = () =>
        fetch(`${second.url}/api/tasks/${taskId}/answers`, {
          method: 'POST',
          headers,
          body: JSON.stringify({ questionId, digest, answer: 'yes' }),
        })
      const agreed = await agree()
      if (!agreed.ok) throw new Error(`${agreed.status} ${await agreed.text()}`)
      const done = await (await fetch(`${second.url}/api/tasks/${taskId}?wait=30`, { headers })).text()
      expect(done, 'are on their way')
      expect(String((await agree()).status), '409')
      const ledger = readFileSync(join(project('desk'), 'data/refunds.jsonl'), 'utf8')
      if (ledger.trim().split('\n').length !== 1) throw new Error(ledger)
    })
  })
  await check(
    'nightly is killed at half; the next process reads what is left, and reports each file once',
    async () => {
      make('nightly', 'nightly')
      npm('nightly', 'test')
      npm('nightly', 'run', 'build')
      expect(npm('nightly', 'run', 'eval'), 'nightly: passed')
      const cwd = project('nightly')
      const names = Array.from({ length: 400 }, (_, i) => `note-${String(i).padStart(3, '0')}.md`)
      mkdirSync(join(cwd, 'many'))
      for (const name of names) writeFileSync(join(cwd, 'many', name), `This is ${name}.\n`)
      const options = { cwd, env: { ...env, DOCUMENTS: 'many' } }
      const first = spawn(process.execPath, ['dist/night.js'], { ...options, stdio: ['ignore', 'pipe', 'inherit'] })
      let said = ''
      for await (const piece of first.stdout) {
        said += piece
        if (said.includes('reading note-200')) first.kill('SIGKILL')
      }
      if (existsSync(join(cwd, 'report.md'))) throw new Error('it was done before it was killed')
      const rest = run(process.execPath, ['dist/night.js'], options)
      const [before, after] = [said, rest].map((text) => text.match(/^reading /gm)?.length ?? 0)
      // one that was being read is read again
      if (before < 200 || before + after > names.length + 1) throw new Error(`${before} were read, then ${after}`)
      const report = readFileSync(join(cwd, 'report.md'), 'utf8')
      const missed = names.filter((name) => report.split(`- ${name}:`).length !== 2)
      if (missed.length > 0) throw new Error(`not once in the report: ${missed.join(', ')}`)
      expect(run(process.execPath, ['dist/night.js'], options), 'is over already')
      // a night that has failed is begun anew
      const fails = { ...options, env: { ...env, DOCUMENTS: 'later', LOG: 'log-of-failures' } }
      expect(String(spawnSync(process.execPath, ['dist/night.js'], fails).status), '1')
      mkdirSync(join(cwd, 'later'))
      expect(run(process.execPath, ['dist/night.js'], fails), 'is written')
      return `${before} were read before, ${after} after`
    },
  )
}

/** Starts a server on a free port, uses it when it has said where it is, and ends it. */
async function withServer(cwd, args, more, use) {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address()
  await new Promise((done) => probe.close(done))
  const process_ = spawn(process.execPath, args, {
    cwd,
    env: { ...env, ...more, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(process_, 'exit').then(([code, signal]) => code ?? signal)
  const limit = setTimeout(() => process_.kill('SIGKILL'), limitMs)
  void ended.then(() => clearTimeout(limit))
  let said = ''
  await new Promise((begun, failed) => {
    process_.stdout.on('data', (piece) => {
      said += piece
      if (said.includes('http://')) begun()
    })
    void ended.then((code) => failed(new Error(`the server ended with ${code}: ${said}`)))
  })
  try {
    await use({ process: process_, ended, url: `http://127.0.0.1:${port}` })
  } finally {
    process_.kill('SIGKILL')
    await ended
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const home = mkdtempSync(join(tmpdir(), 'dramatis-templates-'))
  const [, , given] = process.argv
  const pack = () =>
    join(
      home,
      run('npm', ['pack', '--silent', '--pack-destination', home], {
        cwd: root,
        timeout: installLimitMs,
      }).trim(),
    )
  await checkTemplates(home, given === undefined ? pack() : resolve(given))
  if (counts.failed === 0) rmSync(home, { recursive: true })
  else console.log(`Left for a look: ${home}`)
  sumUp()
}
