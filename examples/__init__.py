"""Programs that show hermesd at work."""
