"""What capture takes in, how soon it is seen, and what that costs queries; beside QuestDB for the line protocol."""
