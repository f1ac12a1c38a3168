/** How often a group of independent noisy models is right. Source: Condorcet's jury theorem (1785), binomial distribution. */

/** That exactly k of n succeed. */
function binomial(n: number, k: number, odds: number): number {
  let ways = 1
  for (let i = 1; i <= k; i++) ways = (ways * (n - k + i)) / i
  return ways * odds ** k * (1 - odds) ** (n - k)
}

const upTo = (n: number): number[] => Array.from({ length: n + 1 }, (_, k) => k)

/** That more than half of an odd number of voters are right. */
export function majorityIsRight(voters: number, right: number): number {
  return upTo(voters)
    .filter((k) => k > voters / 2)
    .reduce((sum, k) => sum + binomial(voters, k, right), 0)
}

/** That the right side brings more arguments with evidence than the wrong one, or as many and the judge guesses right. */
export function debateIsRight(
  argumentsPerSide: number,
  evidence: { right: number; wrong: number },
  judge: number,
): number {
  let sum = 0
  for (const right of upTo(argumentsPerSide)) {
    for (const wrong of upTo(argumentsPerSide)) {
      const odds = binomial(argumentsPerSide, right, evidence.right) * binomial(argumentsPerSide, wrong, evidence.wrong)
      sum += right > wrong ? odds : right === wrong ? odds * judge : 0
    }
  }
  return sum
}
