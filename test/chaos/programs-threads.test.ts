/** The same programs get the same verdicts on threads. */
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { judge, optionsOf, watch } from './judge.ts'
import { programs } from './programs.ts'

for (const [name, program] of Object.entries(programs))
  t.test(`${name}: ${program.verdict}`, async (t) => {
    const team = createTeam(optionsOf(program, true))
    t.teardown(() => team.close())
    const seen = watch(team.events)
    const run = team.launch('go')
    // The protocol is a function in the host, which could go on: it is told of a stall, and nobody is freed.
    for await (const { type } of run.events()) if (type === 'stall') await run.cancel()
    judge(t, program, seen, await run.result)
  })

t.test('five philosophers who all begin at once: each time it is found and broken, and all have eaten', async (t) => {
  const program = programs['dining philosophers, all take the left fork first']!
  const team = createTeam(optionsOf(program, true))
  t.teardown(() => team.close())
  const seen = watch(team.events)
  const rounds = process.env.DRAMATIS_DEEP ? 100 : 5
  for (let round = 0; round < rounds; round++) {
    seen.found = []
    judge(t, program, seen, await team.execute('go'))
  }
})
