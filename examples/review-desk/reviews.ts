/**
 * Sentences of reviews that people have labelled, from the package `sentiment` (MIT), which ships them among its tests.
 * Source: D. Kotzias et al., "From Group to Individual Labels using Deep Features" (KDD 2015), by the UCI Machine
 * Learning Repository ("Sentiment Labelled Sentences"), CC BY 4.0.
 */
import { readFileSync } from 'node:fs'
import type { EvalCase } from 'dramatis/evals'

const SITES = ['amazon', 'imdb', 'yelp'] as const

interface Review {
  readonly text: string
  /** 1: it praises. */
  readonly class: 0 | 1
}

export interface Opinion {
  readonly opinion: 'good' | 'bad'
}

const folder = import.meta.resolve('sentiment/package.json')

const inPackage = (name: string): unknown => JSON.parse(readFileSync(new URL(name, folder), 'utf8'))

/** So many cases of each site, evenly out of its thousand. */
export function reviewCases(ofEach: number): EvalCase<Opinion>[] {
  return SITES.flatMap((site) => {
    const reviews = (inPackage(`test/fixtures/${site}.json`) as Review[]).filter(({ text }) => text.trim() !== '')
    const step = reviews.length / ofEach
    return Array.from({ length: ofEach }, (_, at): EvalCase<Opinion> => {
      const { text, class: label } = reviews[Math.floor(at * step)]!
      return { id: `${site} ${at + 1}`, input: text, expected: { opinion: label === 1 ? 'good' : 'bad' }, tags: [site] }
    })
  })
}

/** AFINN-165: words with their weight, from -5 to 5, and words that turn the next one round. */
export const weights = inPackage('languages/en/labels.json') as Readonly<Record<string, number>>
export const negators = inPackage('languages/en/negators.json') as Readonly<Record<string, 1>>
