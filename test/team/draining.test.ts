/** What a closing team waits for, and for how long a script may go on that does not stop with its run. */
import t from 'tap'
import { leftovers } from '../kit/accounts.ts'
import { gate, given, localTeam, never, openTeam, outcomeOf, silent } from '../kit/team.ts'

t.test('close with drainMs lets messages end that were sent just before it', async (t) => {
  const like = await messageOf(t)
  const handled: string[] = []
  const team = localTeam(t, {
    async worker({ content }, context) {
      await context.sleep(10)
      if (content !== 'told by the first') await context.send('other', 'told by the first')
      handled.push(content)
      return content
    },
    async other({ content }, context) {
      await context.sleep(10)
      handled.push(content)
    },
  })
  const sent = outcomeOf(team.sendMessage({ recipient: 'worker', content: 'first' }))
  const asked = outcomeOf(team.sendMessage({ recipient: 'worker', content: 'second', requiresResponse: true }))
  const delivered = outcomeOf(
    team.getAgent('worker')!.receiveMessage({ ...like, recipient: 'worker', content: 'third', runId: '' }),
  )
  const closed = outcomeOf(team.close({ drainMs: 10_000 }))
  await team.clock.advance(15)
  t.equal(closed.settled, false)
  await team.clock.advance(1_000)
  t.equal(closed.settled, true)
  t.match([sent, asked, delivered], [{ value: null }, { value: { content: 'second' } }, { settled: true }])
  t.same([sent.error, asked.error, delivered.error], [undefined, undefined, undefined])
  t.same(
    handled.filter((content) => content !== 'told by the first'),
    ['first', 'second', 'third'],
  )
})

/** A message as the runtime gives them out. */
async function messageOf(t: Parameters<typeof localTeam>[0]) {
  const team = localTeam(t, { worker: () => '' })
  const { messageHistory } = await team.execute('go')
  return messageHistory[0]!
}

t.test('a message that is refused does not keep a draining team', async (t) => {
  const team = localTeam(t, { worker: () => '' })
  await team.start()
  const refused = outcomeOf(team.sendMessage({ recipient: 'nobody', content: 'hi' }))
  await team.close({ drainMs: 1_000_000 })
  t.match(refused, { error: { code: 'UNKNOWN_AGENT' } })
})

for (const how of ['aborted', 'late']) {
  t.test(`a script that ignores that its run is ${how} is left alone after stopGraceMs`, async (t) => {
    const { opened, open } = gate()
    const warnings: string[] = []
    const codes: string[] = []
    const team = given(t, {
      logger: { ...silent, warn: (_fields, text) => void warnings.push(text) },
      script: async (script, query) => {
        if (query !== 'stuck') return query
        await opened
        for (const verb of [() => script.request('worker', 'go'), () => script.step('mine', () => 1)])
          await verb().catch((error) => codes.push(error.code))
        return 'too late'
      },
    }).team({ worker: () => 'fine' })
    const run = team.launch('stuck', how === 'late' ? { timeoutMs: 100 } : {})
    await team.clock.advance(50)
    if (how === 'aborted') void run.cancel()
    await team.clock.advance(50)
    const code = how === 'late' ? 'RUN_TIMEOUT' : 'RUN_ABORTED'
    t.match(await run.result, { success: false, error: { code } }, 'the caller is told at once')
    await team.clock.advance(5_000)
    t.same(leftovers(team.host), [], 'nothing of the run is under way any more')
    t.match(warnings, [/went on for 5000 ms after its run had ended/])
    t.match(team.deadLetters.list(), [{ reason: 'cancelled', errors: [{ code: 'RUN_ABORTED' }] }])
    t.equal((await team.execute('another run')).finalOutput, 'another run')

    open()
    await team.clock.runToIdle()
    t.same(codes, [code, code])
    t.match(await run.result, { success: false, error: { code }, finalOutput: null })
  })
}

t.test('a draining team does not wait for a script that was left alone', async (t) => {
  const team = openTeam(t, { worker: () => '' }, { script: () => never })
  const run = team.launch('stuck')
  await team.clock.advance(0)
  void run.cancel()
  const closed = outcomeOf(team.close({ drainMs: 1_000_000 }))
  await team.clock.advance(4_999)
  t.equal(closed.settled, false)
  await team.clock.advance(10_001)
  t.equal(closed.settled, true)
})

t.test('runs that wait for a person do not hold a closing team; others do', async (t) => {
  const team = openTeam(t, {
    worker: async ({ content }, context) => {
      if (content === 'work') await context.sleep(1_000)
      else await context.ask('May I?')
      return content
    },
  })
  const asking = ['one', 'two'].map((query) => team.launch(query))
  const working = team.launch('work')
  await team.clock.advance(500)
  t.equal(team.questions().length, 2)
  const closed = outcomeOf(team.close({ drainMs: 20_000 }))
  await team.clock.advance(400)
  t.equal(closed.settled, false)
  await team.clock.advance(200)
  t.equal(closed.settled, true)
  t.equal((await working.result).finalOutput, 'work')
  for (const run of asking) t.match(await run.result, { success: false, error: { code: 'RUN_ABORTED' } })
})
