import t from 'tap'
import { z } from 'zod'
import { type CustomConfig, checkedConfig, defineProtocol, protocolOf } from '../../src/actors/definition/protocol.ts'
import { protocolFrom } from '../../src/protocols/index.ts'
import { FakeOrchestrator } from '../fixtures/fake-orchestrator.ts'

const relay = defineProtocol({
  name: 'relay',
  config: z.object({ runners: z.array(z.string()), laps: z.number().int().default(1) }),
  async run(orchestrator, query, { runners, laps }) {
    let baton = query
    for (let lap = 0; lap < laps; lap++) {
      for (const runner of runners) baton = (await orchestrator.request(runner, baton)).content
    }
    return baton
  },
})
const team = () => new FakeOrchestrator({ a: (baton) => `${baton}a`, b: (baton) => `${baton}b` })
/** A configuration as a user of JavaScript may write it. */
const untyped = (value: unknown) => JSON.parse(JSON.stringify(value))

t.test('a closure runs with the verbs that the built-in protocols use', async (t) => {
  const config: CustomConfig = {
    strategy: 'custom',
    name: 'mine',
    async run(orchestrator, query) {
      const outcomes = await orchestrator.requestAll(['a', 'b'], query)
      return { content: `${outcomes.length} answered`, structuredData: outcomes.map(({ ok }) => ok) }
    },
  }
  const protocol = protocolFrom(config, ['a', 'b'])
  t.equal(protocol.name, 'mine')
  t.same(await team().play(protocol), { content: '2 answered', structuredData: [true, true] })
})

t.test('a closure without a name is called custom', async (t) => {
  t.equal(protocolFrom({ strategy: 'custom', run: async () => 'x' }, []).name, 'custom')
})

t.test('a closure that returns no result fails the run', async (t) => {
  for (const wrong of [undefined, 7, { text: 'x' }]) {
    const protocol = protocolFrom({ strategy: 'custom', name: 'mine', run: async () => untyped({ wrong }).wrong }, [])
    await t.rejects(team().play(protocol), { code: 'REPLY_INVALID', message: /^Protocol "mine" returned/ })
  }
})

t.test('a module is passed on with its config', async (t) => {
  const module = new URL('file:///team/relay.js')
  const protocol = protocolFrom({ strategy: 'custom', module, config: { laps: 2 } }, [])
  t.same(protocol, { name: 'custom', module: module.href, config: { laps: 2 } })
})

t.test('a relative module is refused', async (t) => {
  const relative = () => protocolFrom({ strategy: 'custom', module: './relay.js' }, [])
  t.throws(relative, { code: 'CONFIGURATION', message: /^orchestration\.module: .*Relative to what/ })
})

t.test('the config of a module has to be JSON', async (t) => {
  const config = { at: { start: new Date(0) } }
  const wrong = () => protocolFrom({ strategy: 'custom', module: '@team/relay', config }, [])
  t.throws(wrong, { code: 'CONFIGURATION', details: { path: 'orchestration.config.at.start' } })
})

t.test('a closure and a module exclude each other', async (t) => {
  const both = { strategy: 'custom' as const, module: '@team/relay', run: async () => 'x' }
  t.throws(() => protocolFrom(both, []), { code: 'CONFIGURATION', details: { path: 'orchestration.run' } })
})

t.test('a defined protocol runs with its config, as its schema returns it', async (t) => {
  const protocol = protocolFrom(relay(untyped({ runners: ['a', 'b'] })), ['a', 'b'])
  t.equal(protocol.name, 'relay')
  t.same(await team().play(protocol, '>'), { content: '>ab' })
  t.same(await team().play(protocolFrom(relay({ runners: ['a', 'b'], laps: 2 }), []), '>'), { content: '>abab' })
})

t.test('a config that misses the schema is refused at once with its path', async (t) => {
  t.throws(() => relay(untyped({ runners: ['a', 7], laps: 1 })), {
    code: 'CONFIGURATION',
    message: /^config\.runners\[1\]: .*\(protocol "relay"\)\.$/,
    details: { path: 'config.runners[1]' },
  })
})

t.test('an asynchronous schema is refused', async (t) => {
  const slow = defineProtocol({
    name: 'slow',
    config: z.object({}).refine(async () => true),
    run: async () => 'x',
  })
  t.throws(() => slow({}), { code: 'CONFIGURATION', message: /asynchronous/ })
})

t.test('a protocol without a schema takes any object', async (t) => {
  const echo = defineProtocol<{ text: string }>({ name: 'echo', run: async (_orchestrator, _query, { text }) => text })
  t.same(await team().play(protocolFrom(echo({ text: 'hi' }), [])), { content: 'hi' })
})

t.test('a configuration of which nothing has to be given may be left out', async (t) => {
  const config = z.object({ laps: z.number().default(3) })
  const laps = defineProtocol({ name: 'laps', config, run: async (_orchestrator, _query, { laps }) => `${laps} laps` })
  const bare = defineProtocol({ name: 'bare', run: async (_orchestrator, _query, config) => JSON.stringify(config) })
  t.same(await team().play(protocolFrom(laps(), [])), { content: '3 laps' })
  t.same(await team().play(protocolFrom(bare(), [])), { content: '{}' })
})

t.test('a definition without a name or a script is refused', async (t) => {
  t.throws(() => defineProtocol(untyped({ name: 'x' })), { code: 'CONFIGURATION', details: { path: 'run' } })
  t.throws(() => defineProtocol({ name: '', run: async () => 'x' }), {
    code: 'CONFIGURATION',
    details: { path: 'name' },
  })
})

t.test('a thread finds the definition in what a module exports, and checks the config that it was given', async (t) => {
  const definition = protocolOf(relay)
  t.equal(definition?.name, 'relay')
  if (!definition) return
  const config = checkedConfig(definition, { runners: ['b'] }, 'orchestration.config')
  t.equal(await definition.run(team().context, '>', config), '>b')
  const wrong = () => checkedConfig(definition, {}, 'orchestration.config')
  t.throws(wrong, { code: 'CONFIGURATION', details: { path: 'orchestration.config.runners' } })
})

t.test('what did not come from defineProtocol has no definition', async (t) => {
  for (const value of [undefined, null, {}, () => {}, { run() {} }]) t.equal(protocolOf(value), undefined)
})
