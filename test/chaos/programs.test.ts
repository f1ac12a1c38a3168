/** Programs from the literature get their verdict, in virtual time and on threads; and answers that come late. */
import t from 'tap'
import { type AgentContext, createTeam, defineAgent } from '../../src/index.ts'
import { virtualClock } from '../../src/runtime/testing/virtual-clock.ts'
import { testTeam } from '../../src/testing.ts'
import { howMany } from '../how-many.ts'
import { definitionsOf } from './cast.ts'
import { judge, optionsOf, watch } from './judge.ts'
import { programs } from './programs.ts'

// Programs from the literature get their verdict, in virtual time, however their steps fall.

const seeds = Array.from({ length: howMany(2, 200) }, (_, i) => i + 1)

for (const [name, program] of Object.entries(programs))
  t.test(`${name}: ${program.verdict}`, async (t) => {
    for (const seed of seeds) {
      const team = testTeam(optionsOf(program), { seed, modules: definitionsOf(program) })
      const seen = watch(team.events)
      const result = team.execute('go')
      await team.clock.runToIdle()
      judge(t, program, seen, await result)
      await team.close()
    }
  })

// An answer that comes while its caller dies and is born again: before the death is seen, before the new life is
// ready,
// before its turn begins or after. Agents in one thread under a virtual clock, in as many orders as there are seeds.

const SEEDS = howMany(19, 5_000)
const PIECES = 12
const PATIENCE = 20 // turns of the event loop: about as many as a death and a birth take

t.test(`an answer reaches its caller over the death of that, in ${SEEDS} orders`, async (t) => {
  const ask = async (context: AgentContext) => (await context.request('callee', 'now')).content
  t.same(await wrongs(ask, 'asked 1 times'), [])
})

t.test(`so does each piece of a stream, in ${SEEDS} orders`, async (t) => {
  const ask = async (context: AgentContext) => {
    let told = ''
    for await (const piece of context.requestStream('callee', 'now')) told += piece
    return told
  }
  t.same(await wrongs(ask, 'abcdefghijkl'), [])
})

async function wrongs(ask: (context: AgentContext) => Promise<string>, right: string): Promise<string[]> {
  const wrong: string[] = []
  for (let seed = 1; seed <= SEEDS; seed++) {
    const outcome = await play(seed, ask)
    if (outcome !== right) wrong.push(`seed ${seed}: ${outcome}`)
  }
  return wrong
}

/** The caller dies some turns of the event loop before its answer is there. */
async function play(seed: number, ask: (context: AgentContext) => Promise<string>): Promise<string> {
  const clock = virtualClock({ seed })
  const turn = () => new Promise<void>((resolve) => clock.defer(resolve))
  let asked = 0
  const team = testTeam(
    {
      agents: [{ name: 'caller' }, { name: 'callee' }],
      orchestration: {
        strategy: 'custom',
        run: async (script, query) => (await script.request('caller', query)).content,
      },
    },
    {
      clock,
      modules: {
        caller: defineAgent({ receive: (_message, context) => ask(context) }),
        callee: defineAgent({
          async receive(_message, context) {
            asked += 1
            await context.sleep(1) // until all has come to rest
            clock.defer(() => team.crash('caller'))
            for (let n = 0; n < PIECES; n++) {
              context.emit(String.fromCharCode(97 + n))
              if (n % 3 === seed % 3) await turn()
            }
            for (let turns = seed % PATIENCE; turns > 0; turns--) await turn()
            return `asked ${asked} times`
          },
        }),
      },
    },
  )
  const run = team.execute('go', { timeoutMs: 1_000 })
  await clock.runToIdle()
  const result = await run
  await team.close()
  return result.success ? result.finalOutput : result.error.message
}

// The same programs get the same verdicts on threads: one program of each verdict, and all with DRAMATIS_DEEP=1.

const all = Object.entries(programs)
const verdicts = all.map(([, { verdict }]) => verdict)
const onThreads = all.filter(([, { verdict }], at) => verdicts.indexOf(verdict) >= howMany(at, 0))

for (const [name, program] of onThreads)
  t.test(`${name}, on threads: ${program.verdict}`, async (t) => {
    const team = createTeam(optionsOf(program, true))
    t.teardown(() => team.close())
    const seen = watch(team.events)
    judge(t, program, seen, await team.execute('go'))
  })

t.test('five philosophers who all begin at once: each time it is found and broken, and all have eaten', async (t) => {
  const program = programs['dining philosophers, all take the left fork first']!
  const team = createTeam(optionsOf(program, true))
  t.teardown(() => team.close())
  const seen = watch(team.events)
  const rounds = howMany(1, 100)
  for (let round = 0; round < rounds; round++) {
    seen.found = []
    judge(t, program, seen, await team.execute('go'))
  }
})
