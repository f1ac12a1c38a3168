/** The same programs get the same verdicts on threads. */
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { detections, judge, optionsOf } from './judge.ts'
import { programs } from './programs.ts'

const module = new URL('../fixtures/chaos/walker.js', import.meta.url)

for (const [name, program] of Object.entries(programs))
  t.test(`${name}: ${program.verdict}`, async (t) => {
    const team = createTeam(optionsOf(program, module))
    t.teardown(() => team.close())
    const found = detections(team.events)
    const run = team.launch('go')
    if (program.verdict === 'stall') {
      // The protocol is a function in the host, which could go on: it is told, and nobody is freed.
      for await (const { type } of run.events()) if (type === 'stall') break
      await run.cancel()
    }
    judge(t, program, found, (await run.result).finalOutput)
  })

t.test('five philosophers who all begin at once: each time it is found and broken, and all have eaten', async (t) => {
  const program = programs['dining philosophers, all take the left fork first']!
  const team = createTeam(optionsOf(program, module))
  t.teardown(() => team.close())
  const found = detections(team.events)
  const rounds = process.env.DRAMATIS_DEEP ? 100 : 5
  for (let round = 0; round < rounds; round++) {
    found.length = 0
    const { finalOutput } = await team.execute('go')
    judge(t, program, found, finalOutput)
  }
})
