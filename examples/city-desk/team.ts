/**
 * A desk for questions about a city: weather, money, travel, and whatever else, after the fourth source document.
 *
 *   OPENAI_API_KEY=... DRAMATIS_MODEL=gpt-4.1-mini npm run -s dramatis -- run examples/city-desk/team.ts "Do I need an umbrella in Taipei?"
 *
 * Without a key `npm run -s city-desk` plays it with recorded data and a model that goes by keywords.
 */
import { defineTeam, type MultiAgentPatternOptions } from 'dramatis'
import { exchangeRate, sights, stockPrice, weather } from 'dramatis/tools'

export interface DeskOptions {
  /** Where the services are; the public ones by default. */
  services?: string
  /** What plays the roles; by default what the environment says. */
  models?: MultiAgentPatternOptions['models']
}

export function cityDesk({ services, models }: DeskOptions = {}): MultiAgentPatternOptions {
  const place = services === undefined ? {} : { baseURL: services }
  const style = 'Answer in the language of the question, in one or two sentences, with figures and their dates.'
  return defineTeam({
    agents: [
      {
        name: 'supervisor',
        description: 'plans, and answers',
        systemPrompt: 'You run a desk for questions about a city.',
      },
      {
        name: 'weather',
        description: 'weather now, and for some days',
        systemPrompt: `You know the weather by your tool alone. ${style}`,
        tools: [weather(place)],
      },
      {
        name: 'finance',
        description: 'exchange rates and share prices',
        systemPrompt: `You know rates and prices by your tools alone. The shares of TSMC are TSM in New York. ${style}`,
        tools: [exchangeRate(place), stockPrice(place)],
      },
      {
        name: 'travel',
        description: 'what to do and see in a city, by its weather and its sights',
        systemPrompt: `You plan days in a city. Look at its weather and its sights first, and name the sources of what you say about sights. ${style}`,
        tools: [weather(place), sights],
      },
      { name: 'general', description: 'small talk, and all that nobody else does', systemPrompt: style },
    ],
    orchestration: {
      strategy: 'supervisor',
      supervisor: 'supervisor',
      experts: ['weather', 'finance', 'travel'],
      fallback: 'general',
      timeoutPerAgentMs: 10_000,
    },
    ...(models !== undefined && { models }),
  })
}

export default cityDesk()
