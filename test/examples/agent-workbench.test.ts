/** The workbench of document 000, as a new user starts it. */
import t from 'tap'
import { start } from './start.ts'

t.test('the workbench routes, votes, and plans a trip with a teammate who comes later', async (t) => {
  const { status, stdout, stderr } = start('agent-workbench')
  t.equal(status, 0, stderr)
  t.match(stderr, /"search for today's weather"\? SearchExpert \(.*its capability "search"/)
  t.match(stderr, /"calculate value of MathSkill expression 2\+2"\? CalcBot \(.*its tool "MathSkill"/)
  t.match(stderr, /"Use WebSearch for latest articles"\? SearchExpert/)
  t.match(stdout, /^2\+2 is 4\.$/m)

  t.match(stderr, /Action Alpha \(A tie: the first seen of those with the most votes/)
  t.match(stdout, /weights\n\nAction Alpha\n/)
  t.match(stderr, /Proceed \(The most votes, from AgentP, AgentR\.\)/)
  t.match(stdout, /majority decides\n\nProceed\n/)

  t.match(stderr, /recruit \{"name":"HotelScout"\}\n.*hotel options[^\n]*\? HotelScout/s)
  const trip = [
    'Flight options: SFO Air, United...',
    'Pet-friendly hotels: Hotel PAWsome, The Canine Courtyard...',
    "Activities: Golden Gate Bridge, Alcatraz, Fisherman's Wharf.",
  ]
  t.ok(stdout.endsWith(`${trip.join('\n')}\n`), 'one result a line, in the order of the plan')
})
