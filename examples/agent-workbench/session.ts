/** What the models say where there is none, and what the search finds; routing, votes, skills and the search itself are real. */
import { scriptedModel } from 'dramatis/testing'
import { by } from '../lib/by.ts'
import type { FoundPage } from '../lib/recorded-search.ts'

export const PAGES: readonly FoundPage[] = [
  {
    title: "Today's weather, San Francisco",
    url: 'https://weather.example/san-francisco',
    content: 'Fog until 11, then sunny. High 18 °C, wind from the west.',
  },
  {
    title: 'Latest articles on teams of agents',
    url: 'https://magazine.example/agents',
    content: 'This week: how teams of agents vote, and what happens when they disagree.',
  },
  {
    title: 'Flights to San Francisco',
    url: 'https://flights.example/sfo',
    content: 'Next month: SFO Air from 189 dollars, United from 204 dollars.',
  },
  {
    title: 'Pet-friendly hotels in San Francisco',
    url: 'https://hotels.example/pets/san-francisco',
    content: 'Dogs are welcome at Hotel PAWsome and at The Canine Courtyard.',
  },
  {
    title: 'A weekend in San Francisco',
    url: 'https://guide.example/san-francisco',
    content: "Walk the Golden Gate Bridge, take the boat to Alcatraz, have lunch at Fisherman's Wharf.",
  },
]

const PARTS = [
  'Find flight options to San Francisco for next month',
  'Research and identify pet-friendly hotel options in San Francisco for the chosen dates',
  'List three potential activities or points of interest in San Francisco suitable for a weekend trip',
]

/** One call of a skill, and the answer to what came of it. */
const uses = (agent: string, name: string, input: object, found: RegExp, reply: string) =>
  by(agent, { toolCall: { name, input } }, { when: found, reply })

const searches = (agent: string, query: string, found: RegExp, reply: string) =>
  uses(agent, 'WebSearch', { query }, found, reply)

export const playedModel = () =>
  scriptedModel([
    ...searches('SearchExpert', "today's weather", /Fog until 11/, 'San Francisco: fog until 11, then sunny, 18 °C.'),
    ...uses('CalcBot', 'MathSkill', { expression: '2+2' }, /^4$/, '2+2 is 4.'),
    ...searches('SearchExpert', 'latest articles', /This week/, 'Latest: how teams of agents vote.'),

    ...by('AgentX', { reply: 'Action Alpha' }),
    ...by('AgentY', { reply: 'Action Beta' }),
    ...by('AgentZ', { reply: 'Action Beta' }),
    ...by('AgentP', { reply: 'Proceed' }),
    ...by('AgentQ', { reply: 'Wait' }),
    ...by('AgentR', { reply: 'Proceed' }),

    ...by(
      'Planner',
      { toolCall: { name: 'recruit', input: { name: 'HotelScout' } } },
      { when: /HotelScout/, reply: PARTS },
    ),
    ...searches('FlightFinder', 'flights San Francisco', /SFO Air/, 'Flight options: SFO Air, United...'),
    ...searches(
      'HotelScout',
      'pet-friendly hotels',
      /PAWsome/,
      'Pet-friendly hotels: Hotel PAWsome, The Canine Courtyard...',
    ),
    ...searches(
      'LocalGuide',
      'weekend Alcatraz',
      /Alcatraz/,
      "Activities: Golden Gate Bridge, Alcatraz, Fisherman's Wharf.",
    ),
  ])
